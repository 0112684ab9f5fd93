//! Figures as people read them: three significant digits, thousands apart, the unit beside.

/// Between a figure and its unit: never broken at a line's end.
pub(crate) const NARROW_SPACE: char = '\u{202f}';

/// `value` with three significant digits and thousands apart: `0.0123`, `81.2`, `12,300`.
pub(crate) fn three(value: f64) -> String {
    significant(value, 3)
}

/// `value` with `digits` significant digits.
fn significant(value: f64, digits: i32) -> String {
    if !value.is_finite() {
        return "no number".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let places = digits - 1 - magnitude;
    if places >= 0 {
        let text = format!("{:.*}", places as usize, value.abs());
        // 9.996 becomes 10.00 with three digits' places: one place too many.
        let grew = text.parse::<f64>().is_ok_and(|rounded| rounded >= 10f64.powi(magnitude + 1));
        let text = if grew && places > 0 { format!("{:.*}", places as usize - 1, value.abs()) } else { text };
        return signed(value, &apart(&text));
    }
    let unit = 10f64.powi(-places);
    signed(value, &apart(&format!("{:.0}", (value.abs() / unit).round() * unit)))
}

/// `value` with three significant digits, without zeros that say nothing.
pub(crate) fn brief(value: f64) -> String {
    without_zeros(three(value))
}

/// `value` with three significant digits, but nothing below a hundredth: `81.2`, `0.05`, `0.00`.
pub(crate) fn hundredths(value: f64) -> String {
    if value.abs() >= 1.0 || !value.is_finite() {
        return three(value);
    }
    let text = format!("{:.2}", value.abs());
    if text == "0.00" { text } else { signed(value, &text) }
}

/// A limit that somebody wrote, in full: `99.95`, `1,234`. Twelve digits leave out what a product of two fractions has too much.
pub(crate) fn limit(value: f64) -> String {
    without_zeros(significant(value, 12))
}

fn without_zeros(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A whole number with thousands apart.
pub(crate) fn whole(value: u64) -> String {
    apart(&value.to_string())
}

/// Puts a comma between thousands of an unsigned decimal number.
fn apart(text: &str) -> String {
    let (digits, rest) = text.find('.').map_or((text, ""), |point| text.split_at(point));
    let mut out = String::with_capacity(text.len() + 4);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

fn signed(value: f64, text: &str) -> String {
    if value < 0.0 { format!("\u{2212}{text}") } else { text.to_owned() }
}

/// A part of 1 as a percentage. Just under all is never rounded to all: `99.96 %`.
pub(crate) fn percent(fraction: f64) -> String {
    let value = fraction * 100.0;
    let text = match value {
        v if v > 99.99 && v < 100.0 => ">99.99".to_owned(),
        v if (99.9..100.0).contains(&v) => format!("{:.2}", (v * 100.0).floor() / 100.0),
        100.0 => "100".to_owned(),
        v => three(v),
    };
    format!("{text}{NARROW_SPACE}%")
}

/// A change as a signed percentage: `+5.10 %`, `−6.10 %`.
pub(crate) fn change(fraction: f64) -> String {
    let sign = if fraction > 0.0 { "+" } else { "" };
    format!("{sign}{}", significant(fraction * 100.0, if fraction.abs() < 0.1 { 2 } else { 3 }))
}

/// Bytes in the greatest binary unit that keeps them above 1.
pub(crate) fn bytes(value: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut amount = value as f64;
    let mut unit = 0;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{}{NARROW_SPACE}{}", three(amount), UNITS[unit])
}

/// A length of time: `4 min 12 s`.
pub(crate) fn seconds(value: f64) -> String {
    if !value.is_finite() || value < 0.0 {
        return "unknown time".to_owned();
    }
    if value < 60.0 {
        return format!("{}{NARROW_SPACE}s", three(value));
    }
    let whole = value.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 {
        format!("{hours}{NARROW_SPACE}h {minutes}{NARROW_SPACE}min")
    } else {
        format!("{minutes}{NARROW_SPACE}min {rest}{NARROW_SPACE}s")
    }
}

/// `1 guest`, `24 guests`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", whole(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_kept_and_thousands_are_grouped() {
        let cases = [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (1.0, "1.00"),
            (9.996, "10.0"),
            (81.24, "81.2"),
            (999.6, "1,000"),
            (12_345.0, "12,300"),
            (-6.1, "\u{2212}6.10"),
            (1_234_567.0, "1,230,000"),
        ];
        for (value, text) in cases {
            assert_eq!(three(value), text);
        }
        assert_eq!(three(f64::NAN), "no number");
    }

    #[test]
    fn nothing_below_a_hundredth_is_printed() {
        let texts = [-81.23, 0.047, -0.104, -0.000_002, 0.0, 0.999].map(hundredths);
        assert_eq!(texts, ["\u{2212}81.2", "0.05", "\u{2212}0.10", "0.00", "0.00", "1.00"]);
    }

    #[test]
    fn limits_are_printed_in_full() {
        let cases = [
            (100.0 * 0.9995, "99.95"),
            (100.0 * 0.07, "7"),
            (0.1, "0.1"),
            (1_234.0, "1,234"),
            (12_345.678, "12,345.678"),
            (0.0, "0"),
        ];
        for (value, text) in cases {
            assert_eq!(limit(value), text);
        }
    }

    #[test]
    fn a_share_just_below_one_is_never_rounded_to_100_percent() {
        assert_eq!(percent(0.9996), "99.96\u{202f}%");
        assert_eq!(percent(0.99999), ">99.99\u{202f}%");
        assert_eq!(percent(1.0), "100\u{202f}%");
        assert_eq!(percent(0.0012), "0.120\u{202f}%");
    }

    #[test]
    fn sizes_and_times_carry_their_unit() {
        assert_eq!(bytes(25_769_803_776), "24.0\u{202f}GiB");
        assert_eq!(seconds(252.0), "4\u{202f}min 12\u{202f}s");
        assert_eq!(change(-0.061), "\u{2212}6.1");
    }
}
