//! Length-delimited frames of postcard.

use serde::{Serialize, de::DeserializeOwned};
use std::io::{self, Read, Write};

/// The longest frame: 1 MiB.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// A frame that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The stream ended or broke.
    #[error("the channel broke")]
    Stream(#[from] io::Error),
    /// The other end announced more than a frame may hold.
    #[error("a frame of {0} bytes is longer than {FRAME_BYTES_MAX}")]
    TooLong(usize),
    /// The bytes are no message of this protocol.
    #[error("a frame does not decode")]
    Malformed(#[source] postcard::Error),
}

/// Writes one message as one frame.
pub fn write_frame<T: Serialize>(stream: &mut impl Write, message: &T) -> Result<(), FrameError> {
    let body = postcard::to_stdvec(message).map_err(FrameError::Malformed)?;
    if body.len() > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong(body.len()));
    }
    let length = u32::try_from(body.len()).expect("at most 1 MiB, checked above");
    let mut frame = Vec::with_capacity(4 + body.len());
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&body);
    stream.write_all(&frame)?;
    stream.flush()?;
    Ok(())
}

/// Reads one frame and decodes it.
pub fn read_frame<T: DeserializeOwned>(stream: &mut impl Read) -> Result<T, FrameError> {
    let mut length = [0_u8; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong(length));
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    postcard::from_bytes(&body).map_err(FrameError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_plan::{
        plan::{Demand, Swell},
        scenario::Arrival,
    };
    use tilemark_units::{Rate, Span};

    #[test]
    fn a_message_comes_back() {
        let mut stream = Vec::new();
        write_frame(&mut stream, &("web".to_owned(), 7_u32)).unwrap();
        let message: (String, u32) = read_frame(&mut stream.as_slice()).unwrap();
        assert_eq!(message, ("web".to_owned(), 7));
    }

    #[test]
    fn a_demand_with_and_without_a_surge_comes_back_between_other_fields() {
        let demand = |surge: Option<Swell>| Demand::Open {
            rate: Rate::per_second(200.0).unwrap(),
            arrival: Arrival::Poisson,
            burst_every: Span::from_seconds(5),
            burst_length: Span::from_seconds(1),
            surge,
        };
        let swell = Swell { from: Span::from_seconds(8), length: Span::from_seconds(2), factor: 16 };
        for demand in [demand(None), demand(Some(swell)), Demand::Closed] {
            let mut stream = Vec::new();
            write_frame(&mut stream, &(&demand, 7_u32)).unwrap();
            assert_eq!(read_frame::<(Demand, u32)>(&mut stream.as_slice()).unwrap(), (demand, 7));
        }
    }

    #[test]
    fn an_announced_length_is_refused_before_it_is_allocated() {
        let stream = u32::MAX.to_be_bytes();
        assert!(matches!(read_frame::<u8>(&mut stream.as_slice()), Err(FrameError::TooLong(_))));
    }

    #[test]
    fn a_cut_frame_is_a_broken_channel() {
        let mut stream = Vec::new();
        write_frame(&mut stream, &7_u64).unwrap();
        stream.pop();
        assert!(matches!(read_frame::<u64>(&mut stream.as_slice()), Err(FrameError::Stream(_))));
    }
}
