//! Tests of the splitting of words.

use super::{STOP_WORDS, Words, case_changes};

fn split(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    Words::default().split(text, &mut |word| all.push(word.to_owned()));
    all
}

#[test]
fn names_of_every_case_have_the_same_words() {
    for name in ["get_weather_report", "get-weather-report", "get weather.report"] {
        assert_eq!(split(name), ["get", "weather", "report"], "{name}");
    }
    let whole = ["get", "weather", "report", "getweatherreport"];
    assert_eq!(split("getWeatherReport"), whole);
    assert_eq!(split("GetWeatherReport"), whole);
}

#[test]
fn acronyms_and_digits_stay_together() {
    assert_eq!(case_changes("getHTTPResponse"), [3, 7]);
    assert_eq!(split("getHTTPResponse")[..3], ["get", "http", "respons"]);
    assert_eq!(split("k8s s3 md5"), ["k8s", "s3", "md5"]);
    assert_eq!(split("URLs"), ["url"]);
}

#[test]
fn words_are_stemmed_and_stop_words_left_out() {
    assert_eq!(split("Please list the repositories of a user"), ["list", "repositori", "user"]);
    assert!(STOP_WORDS.is_sorted());
}

#[test]
fn invisible_characters_split_no_word() {
    assert_eq!(split("wea\u{200b}ther\u{202e}"), ["weather"]);
    assert_eq!(split("a\tweather\nreport"), ["weather", "report"]);
}

#[test]
fn ideographs_are_words() {
    assert_eq!(split("天气report"), ["天", "气", "report"]);
}

#[test]
fn long_words_are_cut() {
    assert_eq!(split(&"ß".repeat(1000))[0].len(), 64);
}
