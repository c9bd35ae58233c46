//! Tests of parsing valgrind's summary.

use super::*;

#[test]
fn reads_the_summary_and_refuses_other_words() -> anyhow::Result<()> {
    let report = "==7== HEAP SUMMARY:\n==7==     in use at exit: 5 bytes in 1 blocks\n\
                  ==7==   total heap usage: 1,234,567 allocs, 1,200 frees, 56,789 bytes allocated\n==7==\n";
    assert_eq!(parse(report)?, Heap { allocations: 1_234_567, bytes: 56_789 });
    assert!(parse("==7== HEAP SUMMARY:\n").is_err());
    assert!(parse("total heap usage: some").is_err());
    Ok(())
}
