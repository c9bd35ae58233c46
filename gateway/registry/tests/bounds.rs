//! Limits on the number of records, and waiting between changes.

use std::time::Duration;

use super::*;

/// Fills the store directly, because the same through the API would take many changes.
async fn fill(rig: &Rig, sql: &'static str) {
    run_on(rig.folder.path(), sql);
    rig.registry.refresh().await.unwrap();
}

const MANY: &str = "CREATE TEMP TABLE n (i); \
    INSERT INTO n WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c \
        WHERE i < 256) SELECT i FROM c; \
    INSERT INTO integrations SELECT printf('int_%032x', i), 'acme', 's' || i, 's' || i, 's' || i, \
        'custom', NULL, 'https://mcp.example.com/', 'none', NULL, NULL, 1, 1, 0, 0, NULL FROM n; \
    UPDATE clock SET revision = revision + 1; \
    UPDATE organisations SET revision = (SELECT revision FROM clock)";
const FULL_AGENT: &str = "INSERT INTO assignments SELECT agents.id, integrations.id, 'acme', 0 \
    FROM agents, integrations WHERE integrations.slug <> 's1' AND integrations.slug <> 'one'; \
    UPDATE clock SET revision = revision + 1; \
    UPDATE organisations SET revision = (SELECT revision FROM clock)";
#[tokio::test]
async fn what_is_assigned_to_an_agent_is_bounded() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let one = rig.create(&acme, open_one("One")).await.id;
    let agent = rig.agent(&acme, "Helper").await.id;
    fill(&rig, MANY).await;
    fill(&rig, FULL_AGENT).await;
    let last = format!("int_{:032x}", 1);
    rig.registry.assign(&acme, &agent, &last, &plain()).await.unwrap();
    let error = rig.registry.assign(&acme, &agent, &one, &plain()).await.unwrap_err();
    assert!(matches!(error, RegistryError::TooMany { most: 256, .. }), "{error:?}");
    // Another agent is below its limit.
    let other = rig.agent(&acme, "Other").await.id;
    rig.registry.assign(&acme, &other, &one, &plain()).await.unwrap();
}

/// Changes a server of the operator for an agent.
async fn change_server(
    rig: &Rig,
    agent: &str,
    server: &str,
    wanted: AgentServerChange,
) -> Result<AgentServer, RegistryError> {
    let acme = admin("acme");
    let changed = rig.registry.change_agent_server(&acme, agent, server, wanted, &plain()).await?;
    Ok(changed.after.unwrap())
}

fn assign(is_assigned: bool) -> AgentServerChange {
    AgentServerChange { is_assigned: Some(is_assigned), ..AgentServerChange::default() }
}

fn hide(tools: std::ops::Range<usize>) -> AgentServerChange {
    let tools = tools.map(|number| (format!("t{number}"), false)).collect();
    AgentServerChange { is_assigned: None, tools }
}

#[tokio::test]
async fn an_agent_has_256_servers_of_the_operator_and_no_more() {
    let rig = Rig::new().await;
    let agent = rig.agent(&admin("acme"), "Helper").await.id;
    for number in 0..256 {
        change_server(&rig, &agent, &format!("s{number}"), assign(true)).await.unwrap();
    }
    change_server(&rig, &agent, "s255", assign(true)).await.unwrap();
    let error = change_server(&rig, &agent, "s256", assign(true)).await.unwrap_err();
    let RegistryError::TooMany { what, most } = error else { panic!("{error:?}") };
    assert_eq!((what, most), ("servers of one agent", 256));
    change_server(&rig, &agent, "s7", assign(false)).await.unwrap();
    change_server(&rig, &agent, "s256", assign(true)).await.unwrap();
    let servers = &rig.registry.snapshot("acme").agents[0].servers;
    assert_eq!(servers.len(), 256);
}

#[tokio::test]
async fn an_agent_has_2000_hidden_tools_and_no_more() {
    let rig = Rig::new().await;
    let agent = rig.agent(&admin("acme"), "Helper").await.id;
    change_server(&rig, &agent, "first", hide(0..1500)).await.unwrap();
    let full = change_server(&rig, &agent, "second", hide(0..500)).await.unwrap();
    assert_eq!(full.hidden_tools.len(), 500);
    let error = change_server(&rig, &agent, "third", hide(0..1)).await.unwrap_err();
    let RegistryError::TooMany { what, most } = error else { panic!("{error:?}") };
    assert_eq!((what, most), ("hidden tools of one agent", 2000));
    // Nothing of the refused change is kept, and a tool that is switched on makes room.
    let swapped = AgentServerChange {
        is_assigned: None,
        tools: [("t0".to_owned(), true), ("t500".to_owned(), false)].into(),
    };
    let after = change_server(&rig, &agent, "second", swapped).await.unwrap();
    assert_eq!(after.hidden_tools.len(), 500);
    assert!(change_server(&rig, &agent, "third", hide(0..1)).await.is_err());
}

#[tokio::test]
async fn what_is_no_id_asks_nobody() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    rig.create(&acme, open_one("One")).await;
    let agent = rig.agent(&acme, "Helper").await.id;
    for id in ["int_none", "", "int_\0", "int_0123456789abcdef0123456789ABCDEF", &agent] {
        let error = rig.registry.delete_integration(&acme, id, &plain()).await.unwrap_err();
        assert_eq!(error.code(), "MCP_INTEGRATION_NOT_FOUND", "{id:?}");
        let error = rig.registry.assign(&acme, &agent, id, &plain()).await.unwrap_err();
        assert_eq!(error.code(), "MCP_INTEGRATION_NOT_FOUND", "{id:?}");
    }
    let error = rig.registry.delete_agent(&acme, "agt_\0", &plain()).await.unwrap_err();
    assert_eq!(error.code(), "AGENT_NOT_FOUND");
}

#[tokio::test]
async fn what_cannot_be_changed_waits_for_no_change() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let id = rig.create(&acme, open_one("One")).await.id;
    rig.registry.enable_integration(&acme, &id, false, &plain()).await.unwrap();
    // Another transaction holds the row that all changes lock.
    let store = lockgate_store::Store::new(file_config(&rig.folder, &[]).place);
    let holds = store.begin("other").await.unwrap();
    let old = ChangeOptions { expected_version: Some(1), ..plain() };
    let unknown = format!("int_{:032x}", 7);
    let refused = async {
        let first = rig.registry.delete_integration(&acme, &id, &old).await.unwrap_err();
        let second = rig.registry.delete_integration(&acme, &unknown, &plain()).await;
        (first, second.unwrap_err())
    };
    let (old, unknown) = tokio::time::timeout(Duration::from_secs(3), refused).await.unwrap();
    assert!(matches!(old, RegistryError::VersionMismatch { current: 2 }), "{old:?}");
    assert_eq!(unknown.code(), "MCP_INTEGRATION_NOT_FOUND");
    drop(holds);
}

#[tokio::test]
async fn what_another_gateway_has_made_just_now_can_be_changed() {
    let rig = Rig::new().await;
    let acme = admin("acme");
    let other = rig.another(&[KEY]).await;
    let id = rig.create(&acme, open_one("One")).await.id;
    other.enable_integration(&acme, &id, false, &plain()).await.unwrap();
    let seen = ChangeOptions { expected_version: Some(2), ..plain() };
    rig.registry.delete_integration(&acme, &id, &seen).await.unwrap();
}

#[tokio::test]
async fn an_organisation_with_many_changes_does_not_hold_up_another() {
    let rig = Rig::new().await;
    let store = lockgate_store::Store::new(file_config(&rig.folder, &[]).place);
    let holds = store.begin("nobody").await.unwrap();
    let mut running = Vec::new();
    for number in 0..140 {
        let registry = Arc::clone(&rig.registry);
        running.push(tokio::spawn(async move {
            let actor = actor("loud", &format!("u{number}"), Role::User);
            registry.create_agent(&actor, &format!("a{number}"), &plain()).await.map(drop)
        }));
    }
    while rig.registry.turns.waiting() < 128 {
        tokio::task::yield_now().await;
    }
    let registry = Arc::clone(&rig.registry);
    let quiet = tokio::spawn(async move {
        registry.create_agent(&admin("quiet"), "first", &plain()).await.unwrap();
        // Counted here, because this test may be continued much later on a busy machine.
        let known = registry.organisations();
        known.iter().find(|one| one.id == "loud").map_or(0, |one| one.agents)
    });
    tokio::task::yield_now().await;
    holds.roll_back().await.unwrap();
    let loud = quiet.await.unwrap();
    // In turn after a few, and without turns after all that waited.
    assert!(loud < 40, "the quiet one came after {loud} of the others");
    let mut refused = 0;
    for change in running {
        if let Err(error) = change.await.unwrap() {
            assert_eq!(error.code(), "STORE_UNAVAILABLE");
            refused += 1;
        }
    }
    // Those for which there is no place, and on a busy machine those that waited too long.
    assert!((1..140).contains(&refused), "{refused}");
}
