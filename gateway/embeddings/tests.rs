//! Responses of servers of embeddings, good and bad.

use serde_json::{Value, json};

use super::{MAX_LENGTH, read};

fn item(index: usize, embedding: &Value) -> Value {
    json!({"object": "embedding", "index": index, "embedding": embedding})
}

fn answer(data: &[Value]) -> String {
    json!({"object": "list", "model": "m", "data": data, "usage": {"total_tokens": 1}}).to_string()
}

#[test]
fn vectors_are_those_of_their_texts() {
    let answer = answer(&[item(1, &json!([0, -2.0])), item(0, &json!([3e0, 4]))]);
    let vectors = read(answer.as_bytes(), 2).unwrap();
    assert_eq!(
        vectors.iter().map(|one| one.to_vec()).collect::<Vec<_>>(),
        [[0.6, 0.8], [0.0, -1.0]]
    );
    let bare = r#"{"data": [{"embedding": [1]}, {"embedding": [-1]}]}"#;
    let vectors = read(bare.as_bytes(), 2).unwrap();
    assert_eq!(vectors.iter().map(|one| one[0]).collect::<Vec<_>>(), [1.0, -1.0]);
    assert!(read(self::answer(&[item(0, &json!(vec![1; MAX_LENGTH]))]).as_bytes(), 1).is_ok());
}

#[test]
fn bad_responses_are_refused() {
    let one = || item(0, &json!([1.0, 0.0]));
    let no_list = "the response is not a list of embeddings";
    let no_direction = "a vector has no direction, or numbers that are not finite";
    let cases = [
        (answer(&[]), "the response has 0 vectors for 1 texts"),
        (answer(&[one(), one()]), "the response has 2 vectors for 1 texts"),
        (answer(&[item(1, &json!([1.0]))]), "the response lacks the vector of a text"),
        (answer(&[item(usize::MAX, &json!([1.0]))]), "the response lacks the vector of a text"),
        (answer(&[item(0, &json!([]))]), no_direction),
        (answer(&[item(0, &json!([0.0, 0.0]))]), no_direction),
        (answer(&[item(0, &json!([1e300, 0.0]))]), no_list),
        (answer(&[item(0, &json!([1.0, null]))]), no_list),
        (answer(&[item(0, &json!("AACAPw=="))]), no_list),
        (answer(&[one()]).replace("1.0", "NaN"), no_list),
        (answer(&[one()]).replace("1.0", "1e999"), no_list),
        ("<html>secret</html>".into(), no_list),
        (json!({"error": {"message": "secret"}}).to_string(), no_list),
    ];
    for (body, words) in cases {
        assert_eq!(read(body.as_bytes(), 1), Err(words.into()), "{body}");
    }
    let long = answer(&[item(0, &json!(vec![1; MAX_LENGTH + 1]))]);
    let words = format!("a vector has {} numbers, more than {MAX_LENGTH}", MAX_LENGTH + 1);
    assert_eq!(read(long.as_bytes(), 1), Err(words));
    let uneven = answer(&[one(), item(1, &json!([1.0]))]);
    assert_eq!(read(uneven.as_bytes(), 2), Err("the vectors have different lengths".into()));
    let twice = answer(&[one(), one()]);
    assert_eq!(read(twice.as_bytes(), 2), Err("the response lacks the vector of a text".into()));
}
