//! Tests of buffers.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use crate::budget::Budget;
use crate::reader::*;

#[test]
fn a_message_is_put_together_whatever_its_size() {
    for (max, sizes) in [
        (10, vec![0, 3, 7]),
        (MAX_HEAP_MESSAGE, vec![MAX_HEAP_MESSAGE - 1, 1]),
        (2 * MAX_HEAP_MESSAGE, vec![MAX_HEAP_MESSAGE, 1, MAX_HEAP_MESSAGE - 1]),
        (MAX_HEAP_MESSAGE + 1, vec![MAX_HEAP_MESSAGE + 1]),
        // Larger than the mapping.
        (MAX_HEAP_MESSAGE + 1, vec![MAX_HEAP_MESSAGE, MAX_HEAP_MESSAGE, 3 * MAX_HEAP_MESSAGE, 1]),
    ] {
        let mut buffer = Buffer::new(max);
        for round in 0..2_u8 {
            let mut wanted = Vec::new();
            for (at, size) in sizes.iter().enumerate() {
                let piece = vec![b'a' + round + u8::try_from(at).unwrap(); *size];
                buffer.extend(&piece);
                wanted.extend(piece);
                assert_eq!(buffer.len(), wanted.len());
            }
            assert!(buffer.as_slice() == wanted);
            assert!(buffer.take() == wanted, "{sizes:?}");
            assert!(buffer.is_empty());
        }
    }
}

#[test]
fn bytes_count_until_the_last_part_of_them_is_gone() {
    let budget = Arc::new(Budget::new(100));
    let mut hold = Hold::none(Arc::clone(&budget));
    hold.grow(10).unwrap();
    let bytes = counted(Bytes::from_static(b"0123456789"), hold);
    let part = bytes.slice(3..5);
    drop(bytes);
    assert_eq!((&part[..], budget.used()), (&b"34"[..], 10));
    drop(part);
    assert_eq!(budget.used(), 0);
}
