//! Follows resources with kube-rs' watcher, and prints what its stores have, whenever that changes: a line of JSON with the
//! objects of each resource as NAMESPACE/NAME@VERSION.
//!
//! Arguments: GROUP/VERSION/KIND/PLURAL of each resource. Every other one is read by streaming lists. KUBECONFIG names the API
//! server.

use std::{collections::BTreeMap, env, error::Error, future::ready, time::Duration};

use futures::StreamExt;
use kube::api::{ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, ResourceExt};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let client = Client::try_default().await?;
    let mut stores = BTreeMap::new();
    for (i, argument) in env::args().skip(1).enumerate() {
        let [group, version, kind, plural] = argument.split('/').collect::<Vec<_>>()[..] else {
            return Err("not GROUP/VERSION/KIND/PLURAL".into());
        };
        let resource = ApiResource {
            group: group.into(),
            version: version.into(),
            api_version: if group.is_empty() { version.into() } else { format!("{group}/{version}") },
            kind: kind.into(),
            plural: plural.into(),
        };
        let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let config = match i % 2 {
            0 => watcher::Config::default(),
            _ => watcher::Config::default().streaming_lists(),
        };
        let writer = reflector::store::Writer::new(resource);
        stores.insert(argument.clone(), writer.as_reader());
        let events = reflector(writer, watcher(api, config).default_backoff());
        tokio::spawn(events.for_each(|_| ready(())));
    }
    let mut printed = String::new();
    loop {
        let all: BTreeMap<_, _> = stores.iter().map(|(name, store)| (name, described(store.state()))).collect();
        let line = serde_json::to_string(&all)?;
        if line != printed {
            println!("{line}");
            printed = line;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn described(objects: Vec<std::sync::Arc<DynamicObject>>) -> Vec<String> {
    let mut all: Vec<_> = objects
        .iter()
        .map(|o| {
            format!("{}/{}@{}", o.namespace().unwrap_or_default(), o.name_any(), o.resource_version().unwrap_or_default())
        })
        .collect();
    all.sort();
    all
}
