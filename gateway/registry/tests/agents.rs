//! Agents, their owners and their assignments.

use super::*;

fn named(name: &str) -> AgentPatch {
    AgentPatch { name: Some(name.to_owned()), ..AgentPatch::default() }
}

fn owner_of(agent: &Agent) -> PrincipalKey {
    let Agent { owner_issuer, owner_subject, .. } = agent.clone();
    PrincipalKey { issuer: owner_issuer, subject: owner_subject }
}

#[tokio::test]
async fn an_agent_is_its_owners_and_the_administrators() {
    let rig = Rig::new().await;
    let [ann, bob] = ["ann", "bob"].map(|name| actor("acme", name, Role::User));
    let made = rig.agent(&ann, "Helper").await;
    assert!(made.id.starts_with("agt_"));
    assert_eq!(owner_of(&made), ann.principal);
    for nobody in [&bob, &actor("other", "ann", Role::User), &admin("other")] {
        let registry = &rig.registry;
        assert_eq!(registry.agent(nobody, &made.id).unwrap_err().code(), "AGENT_NOT_FOUND");
        let renamed = registry.change_agent(nobody, &made.id, named("Mine"), &plain()).await;
        assert_eq!(renamed.unwrap_err().code(), "AGENT_NOT_FOUND");
        let gone = registry.delete_agent(nobody, &made.id, &plain()).await;
        assert_eq!(gone.unwrap_err().code(), "AGENT_NOT_FOUND");
        assert_eq!(registry.list_agents(nobody).len(), 0);
    }
    // Names are unique per owner.
    rig.agent(&bob, "helper").await;
    let error = rig.registry.create_agent(&ann, "HELPER", &plain()).await.unwrap_err();
    assert_eq!(error.code(), "NAME_TAKEN");
    assert_eq!(rig.registry.list_agents(&admin("acme")).len(), 2);
    let renamed =
        rig.registry.change_agent(&admin("acme"), &made.id, named("Ours"), &plain()).await;
    let renamed = renamed.unwrap().after.unwrap();
    assert_eq!((renamed.name.as_str(), renamed.version), ("Ours", 2));
    let searching = AgentPatch { tools: Some("search".into()), ..AgentPatch::default() };
    let changed = rig.registry.change_agent(&ann, &made.id, searching, &plain()).await.unwrap();
    let changed = changed.after.unwrap();
    assert_eq!((&*changed.name, &*changed.tools, changed.version), ("Ours", "search", 3));
    rig.registry.delete_agent(&ann, &made.id, &plain()).await.unwrap();
    assert!(rig.registry.agent(&ann, &made.id).is_err());
}

#[tokio::test]
async fn what_is_assigned_reaches_the_snapshot() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let ann = actor("acme", "ann", Role::User);
    let agent = rig.agent(&ann, "Helper").await.id;
    let one = rig.create(&acme, open_one("One")).await;
    let two = rig.create(&acme, open_one("Two")).await;
    let mut changes = rig.registry.changes();
    rig.registry.assign(&ann, &agent, &two.id, &plain()).await.unwrap();
    assert_eq!(&*changes.try_recv().unwrap(), "acme");
    assert_eq!(rig.registry.list_assigned(&ann, &agent).unwrap()[0], two);
    assert_eq!(rig.registry.list_available(&ann, &agent).unwrap()[0], one);
    let snapshot = rig.registry.snapshot("acme");
    let own: Vec<&str> = snapshot.agents[0].servers.iter().map(|id| &**id).collect();
    assert_eq!(own, [two.id.as_str()]);
    assert_eq!(owner_of(&snapshot.agents[0].agent), ann.principal);

    let twice = rig.registry.assign(&ann, &agent, &two.id, &plain()).await.unwrap_err();
    assert_eq!(twice.code(), "MCP_INTEGRATION_ALREADY_ASSIGNED");
    let never = rig.registry.unassign(&ann, &agent, &one.id, &plain()).await.unwrap_err();
    assert_eq!(never.code(), "MCP_INTEGRATION_NOT_ASSIGNED");
    rig.registry.unassign(&ann, &agent, &two.id, &plain()).await.unwrap();
    assert!(rig.registry.list_assigned(&ann, &agent).unwrap().is_empty());
    rig.registry.assign(&ann, &agent, &one.id, &plain()).await.unwrap();
    rig.registry.delete_integration(&acme, &one.id, &plain()).await.unwrap();
    assert!(rig.registry.snapshot("acme").agents[0].servers.is_empty());
}

#[tokio::test]
async fn what_cannot_be_assigned_says_why() {
    let rig = Rig::new().await;
    let ann = actor("acme", "ann", Role::User);
    let agent = rig.agent(&ann, "Helper").await.id;
    let disabled = NewIntegration { enabled: Some(false), ..open_one("Off") };
    let disabled = rig.create(&admin("acme"), disabled).await.id;
    let foreign = rig.create(&admin("other"), open_one("Foreign")).await.id;
    let operator = actor("acme", "root", Role::Operator);
    let cases = [
        (&ann, agent.as_str(), disabled.as_str(), "MCP_INTEGRATION_DISABLED"),
        (&ann, &agent, "int_none", "MCP_INTEGRATION_NOT_FOUND"),
        // Another organisation's integration is reported as missing, except to operators.
        (&ann, &agent, &foreign, "MCP_INTEGRATION_NOT_FOUND"),
        (&operator, &agent, &foreign, "MCP_INTEGRATION_WRONG_ORGANIZATION"),
        (&ann, "agt_none", &disabled, "AGENT_NOT_FOUND"),
    ];
    for (who, agent, integration, code) in cases {
        let error = rig.registry.assign(who, agent, integration, &plain()).await.unwrap_err();
        assert_eq!(error.code(), code);
    }
    let error = rig.registry.unassign(&ann, &agent, &foreign, &plain()).await.unwrap_err();
    assert_eq!(error.code(), "MCP_INTEGRATION_NOT_FOUND");
}

#[tokio::test]
async fn an_owner_has_a_bounded_number_of_agents() {
    let rig = Rig::new().await;
    let ann = actor("acme", "ann", Role::User);
    for number in 0..100 {
        rig.agent(&ann, &format!("a{number}")).await;
    }
    let error = rig.registry.create_agent(&ann, "one more", &plain()).await.unwrap_err();
    assert!(matches!(error, RegistryError::TooMany { most: 100, .. }), "{error:?}");
    rig.agent(&actor("acme", "bob", Role::User), "his first").await;
}

#[tokio::test]
async fn the_items_of_an_agent_are_bounded() {
    let rig = Rig::new().await;
    let ann = actor("acme", "ann", Role::User);
    let id = rig.agent(&ann, "Helper").await.id;
    for (bytes, is_kept) in [(16 * 1024, true), (16 * 1024 + 1, false)] {
        let patch = AgentPatch { items: Some("x".repeat(bytes)), ..AgentPatch::default() };
        let changed = rig.registry.change_agent(&ann, &id, patch, &plain()).await;
        assert_eq!(changed.is_ok(), is_kept, "{bytes}");
    }
}
