//! Fast text: numbers and letters pushed into a buffer without formatting machinery.

use crate::random::Draw;

const PAIRS: [u8; 200] = {
    let mut pairs = [0_u8; 200];
    let mut i = 0;
    while i < 100 {
        pairs[2 * i] = b'0' + (i / 10) as u8;
        pairs[2 * i + 1] = b'0' + (i % 10) as u8;
        i += 1;
    }
    pairs
};

/// Pushes `value` in decimal, at least `width` digits wide.
fn push_padded(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    while value >= 100 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if value >= 10 {
        start -= 2;
        digits[start..start + 2].copy_from_slice(&PAIRS[value as usize * 2..value as usize * 2 + 2]);
    } else {
        start -= 1;
        digits[start] = b'0' + value as u8;
    }
    let start = start.min(digits.len() - width);
    out.extend_from_slice(&digits[start..]);
}

/// A row that is being written: fields with commas between them.
pub(crate) struct Row<'a>(pub(crate) &'a mut Vec<u8>);

impl Row<'_> {
    /// A field that is a number.
    pub(crate) fn number(&mut self, value: u64) -> &mut Self {
        push_padded(self.0, value, 1);
        self.comma()
    }

    /// A field that is a number of exactly `width` digits, zeros in front.
    pub(crate) fn digits(&mut self, value: u64, width: usize) -> &mut Self {
        push_padded(self.0, value, width);
        self.comma()
    }

    /// A field that is a text without commas and quotes.
    pub(crate) fn text(&mut self, value: &str) -> &mut Self {
        self.0.extend_from_slice(value.as_bytes());
        self.comma()
    }

    /// A field that is an amount in hundredths.
    pub(crate) fn money(&mut self, cents: u64) -> &mut Self {
        push_padded(self.0, cents / 100, 1);
        self.0.push(b'.');
        push_padded(self.0, cents % 100, 2);
        self.comma()
    }

    /// A part of a field: text.
    pub(crate) fn part(&mut self, value: &[u8]) -> &mut Self {
        self.0.extend_from_slice(value);
        self
    }

    /// A part of a field: a number at least `width` digits wide.
    pub(crate) fn part_digits(&mut self, value: u64, width: usize) -> &mut Self {
        push_padded(self.0, value, width);
        self
    }

    /// Ends a field made of parts.
    pub(crate) fn comma(&mut self) -> &mut Self {
        self.0.push(b',');
        self
    }

    /// Ends the row: the comma after the last field becomes the end of the line.
    pub(crate) fn end(&mut self) {
        *self.0.last_mut().expect("a row has at least one field") = b'\n';
    }
}

/// `N` random capital letters.
pub(crate) fn letters<const N: usize>(draw: &mut Draw) -> [u8; N] {
    std::array::from_fn(|_| b'A' + draw.below(26) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fill: impl Fn(&mut Row)) -> String {
        let mut out = Vec::new();
        fill(&mut Row(&mut out));
        Row(&mut out).end();
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_would() {
        for value in [0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 12345, 99_999_999_999, u64::MAX] {
            assert_eq!(
                row(|r| {
                    r.number(value);
                }),
                format!("{value}\n")
            );
            assert_eq!(
                row(|r| {
                    r.digits(value % 1000, 5);
                }),
                format!("{:05}\n", value % 1000)
            );
        }
    }

    #[test]
    fn money_has_two_decimals() {
        assert_eq!(
            row(|r| {
                r.money(1).money(70).money(40_000);
            }),
            "0.01,0.70,400.00\n"
        );
    }
}
