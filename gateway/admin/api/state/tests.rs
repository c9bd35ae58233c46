//! Tests of `places`.

use super::*;

#[test]
fn an_organisation_has_some_places_and_no_other_waits_for_it() {
    let all = Places::new(4, 6);
    let mut places: Vec<OrganisationPermit> = (0..4).filter_map(|_| all.enter("acme")).collect();
    assert_eq!(places.len(), 4);
    assert!(all.enter("acme").is_none());
    let others = (all.enter("other"), all.enter("other"), all.enter("other"));
    assert!(others.0.is_some() && others.1.is_some() && others.2.is_none(), "of all there are six");
    places.pop();
    assert!(all.enter("acme").is_some());
    drop((places, others));
    assert_eq!(all.all.available_permits(), 6);
}
