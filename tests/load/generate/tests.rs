//! Tests of nearest-rank quantiles.

use super::quantile;

#[test]
fn quantiles_are_values_that_occurred() {
    let hundred: Vec<u64> = (1..=100).collect();
    assert_eq!(
        (quantile(&hundred, 0.5), quantile(&hundred, 0.99), quantile(&hundred, 1.0)),
        (50, 99, 100)
    );
    assert_eq!((quantile(&[7], 0.5), quantile(&[7], 0.99)), (7, 7));
    assert_eq!(quantile(&[], 0.5), 0);
}
