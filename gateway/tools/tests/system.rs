//! The `system` server shows visible items only, and no secrets.

use lockgate_upstream::{
    Catalog, Instance, Item, Peer, Stage, StageError, Status, Subscription, Topic, UpstreamState,
};

use super::*;

#[tokio::test]
async fn the_gateway_and_its_servers_are_described() {
    let rig = rig(&plain());
    assert_eq!(rig.call("system/info", json!({})).await.unwrap()["version"], "1.2.3");
    let health = rig.call("system/health", json!({})).await.unwrap();
    assert_eq!((&health["status"], &health["servers"]), (&json!("ok"), &json!({"connected": 2})));
    let servers = rig.call("system/servers", json!({})).await.unwrap();
    assert_eq!(servers["servers"][0]["name"], "example");
    assert_eq!(servers["servers"][0]["tools"], 3);
}

#[tokio::test]
async fn tools_are_counted_by_category_and_shown_one_by_one() {
    let rig = rig(&plain());
    let all = rig.call("system/tools", json!({})).await.unwrap();
    assert_eq!(all["categories"], json!({"example": 3, "system": 6}));
    let example = rig.call("system/tools", json!({"category": "example"})).await.unwrap();
    assert_eq!(example["count"], 3);
    assert!(example["tools"][0].get("inputSchema").is_none());
    let one = rig.call("system/tools", json!({"name": "example/add"})).await.unwrap();
    assert_eq!(one["tools"][0]["inputSchema"]["required"], json!(["a", "b"]));
    let exposed = rig.call("system/tools", json!({"name": "example__add"})).await.unwrap();
    assert_eq!(exposed, one);
    let none = rig.call("system/tools", json!({"name": "example/nothing"})).await;
    assert_eq!(
        none,
        Err("there is no built-in tool `example/nothing`; call without `name` for all".into())
    );
}

#[tokio::test]
async fn what_policy_hides_is_not_shown() {
    let mut rig = rig(&plain());
    rig.hidden = vec!["example__add", "example://readme"];
    let tools = rig.call("system/tools", json!({})).await.unwrap();
    assert_eq!(tools["categories"]["example"], 2);
    let hidden = rig.call("system/tools", json!({"name": "example/add"})).await.unwrap_err();
    let unknown = rig.call("system/tools", json!({"name": "example/xyz"})).await.unwrap_err();
    assert_eq!(hidden, unknown.replace("xyz", "add"));
    let listed = rig.call("system/resources", json!({})).await.unwrap();
    assert!(!listed.to_string().contains("example://readme"), "{listed}");
    rig.hidden = vec!["example"];
    for tool in ["servers", "tools", "resources", "health"] {
        let shown = rig.call(&format!("system/{tool}"), json!({})).await.unwrap();
        assert!(!shown.to_string().contains("example"), "{shown}");
    }
}

#[tokio::test]
async fn resources_are_listed_in_pages_and_read() {
    let rig = rig(&plain());
    let page = rig.call("system/resources", json!({"limit": 1})).await.unwrap();
    assert_eq!((&page["count"], &page["next"]), (&json!(2), &json!(1)));
    assert_eq!(page["resources"][0]["uri"], "example://readme");
    let page = rig.call("system/resources", json!({"limit": 1, "offset": 1})).await.unwrap();
    assert_eq!(page["resources"][0]["uriTemplate"], "example://note/{name}");
    assert!(page.get("next").is_none());
    let read = rig.call("system/read_resource", json!({"uri": "example://readme"})).await.unwrap();
    assert!(read["contents"][0]["text"].as_str().unwrap().starts_with("# Example"));
    let none = rig.call("system/read_resource", json!({"uri": "example://none"})).await;
    assert_eq!(none, Err("resource not found".into()));
}

/// A server with secrets in its error and its definition.
struct Failing;

const SECRET: &str = "hunter2";

impl Upstream for Failing {
    fn slug(&self) -> &str {
        "failing"
    }

    fn instance(&self) -> Instance {
        Instance::mint()
    }

    fn status(&self) -> Arc<Status> {
        let words = format!("connecting to https://user:{SECRET}@10.1.2.3/ failed");
        let trouble =
            StageError { stage: Stage::Connect, words, stderr: vec![format!("TOKEN={SECRET}")] };
        let peer = Peer {
            era: Era::Modern,
            revision: lockgate_protocol::revision::Revision::V2026_07_28,
            transport: "stdio",
            name: SECRET.into(),
            version: SECRET.into(),
        };
        let since = std::time::SystemTime::now();
        Arc::new(Status {
            state: UpstreamState::Failed,
            since,
            peer: Some(peer),
            trouble: Some(trouble),
            list_failure: None,
            restarts: 3,
            last_good: None,
        })
    }

    fn catalog(&self) -> Arc<Catalog> {
        let item = Item { key: SECRET.into(), text: Bytes::from_static(b"{}"), headers: None };
        let instructions = Some(SECRET.into());
        let mut catalog = Catalog { instructions, ..Catalog::default() };
        catalog.set_items(ListKind::Tools, vec![item]);
        Arc::new(catalog)
    }

    fn calls(&self) -> &Arc<lockgate_admission::ConcurrencyLimit> {
        unreachable!("nobody calls it")
    }

    fn call<'a>(&'a self, _: Call<'a>) -> BoxFuture<'a, Result<Answer, UpstreamError>> {
        Box::pin(std::future::pending())
    }

    fn subscribe<'a>(
        &'a self,
        _: &'a Topic,
        _: &'a Caller,
        _: CallerIdentity<'a>,
    ) -> BoxFuture<'a, Result<Subscription, UpstreamError>> {
        Box::pin(std::future::pending())
    }

    fn unsubscribe<'a>(&'a self, _: &'a Topic, _: Subscription) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn touch(&self) {}

    fn forget_session(&self, _: u64) {}

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// A view of the failing server only.
struct Sees;

impl CallerView for Sees {
    fn identity(&self) -> CallerIdentity<'_> {
        CallerIdentity { organisation: None, issuer: "local", subject: "user", access_token: None }
    }

    fn calls_fail(&self, _: &dyn Upstream) -> bool {
        false
    }

    fn servers(&self) -> Vec<Arc<dyn Upstream>> {
        vec![Arc::new(Failing)]
    }

    fn items(&self, _: ListKind) -> Vec<VisibleItem> {
        vec![VisibleItem {
            slug: "failing".into(),
            exposed: SECRET.into(),
            text: Bytes::from_static(b"{}"),
        }]
    }

    fn read<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(async { Err("no".into()) })
    }
}

#[tokio::test]
async fn nothing_secret_is_in_servers_and_health() {
    let rig = rig(&plain());
    for (tool, shown) in
        [("servers", "\"failedStage\":\"connect\""), ("health", "\"status\":\"down\"")]
    {
        let request = request(Method::ToolsCall, &json!({}));
        let caller = Caller {
            id: lockgate_admission::CallerId::alone(1),
            capabilities: "{}".into(),
            interactive: false,
            assertion: None,
            log_level: None,
            session: None,
            era: Era::Modern,
        };
        let call = Call { caller_view: Some(&Sees), ..Call::new(tool, &request, &caller) };
        let answer = rig.server("system").call(call).await.unwrap();
        let text = String::from_utf8(answer.text.to_vec()).unwrap();
        let structured = open(&answer).unwrap()["structuredContent"].to_string();
        assert!(structured.contains(shown), "{structured}");
        for secret in [SECRET, "10.1.2.3", "TOKEN"] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}
