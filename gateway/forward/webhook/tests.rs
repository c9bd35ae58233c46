//! The id of a body.

use super::*;

#[test]
fn an_id_names_the_records_and_their_chain() {
    let lines =
        b"{\"seq\":7}\n{\"seq\":8,\"hash\":\"00112233445566778899aabbccddeeff\"}\n".to_vec();
    let records = Records { lines: lines.clone(), first: 7, last: 8, count: 2, lost: 0 };
    let body = Body::new(records);
    assert_eq!((&*body.id, &body.lines[..]), ("7-8-0011223344556677", &lines[..]));
}
