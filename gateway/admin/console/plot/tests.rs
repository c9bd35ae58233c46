//! Tests of `plot`.

use super::*;

#[test]
fn the_highest_bar_is_as_high_as_the_drawing_and_the_newest_is_at_its_end() {
    let plot = RECENT.plot("Calls", "", [Some(4.0), Some(0.0), Some(1.0)]);
    let bars = plot.bars();
    assert_eq!(bars.len(), 2);
    assert_eq!(bars[0].1, HEIGHT);
    assert_eq!(bars[1].0 + STEP, plot.width());
    let texts = [plot.least_text(), plot.most_text(), plot.last_text()];
    assert_eq!(texts, ["0", "4", "1"]);
    assert_eq!(plot.rows()[1], ("1 min 0 s ago".to_owned(), "4".to_owned()));
}

#[test]
fn nothing_is_no_bar_and_no_figure() {
    let plot = RECENT.plot("Latency, average", "ms", [None, Some(0.25), None]);
    assert_eq!(plot.bars().len(), 1);
    let texts = [plot.least_text(), plot.most_text(), plot.last_text()];
    assert_eq!(texts, ["0.2 ms", "0.2 ms", "–"]);
    assert!(RECENT.plot("Calls", "", []).bars().is_empty());
}
