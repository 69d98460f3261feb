//! The program that people write in Rust to get changes into Kafka: kube-rs' watcher and rdkafka's FutureProducer. It
//! keeps no position and knows no state before a change; it is here to be measured beside the exporter.
//!
//! Arguments: typed or dynamic for Pods, or GROUP/VERSION/KIND, the broker, the topic, the codec (zstd, or zstd:1 for a level). KUBECONFIG names the API server.

use std::{env, error::Error, fmt::Debug, pin::pin, time::Duration};

use futures::{StreamExt, TryStreamExt, stream::FuturesUnordered};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{DeliveryFuture, FutureProducer, FutureRecord};
use serde::{Serialize, de::DeserializeOwned};

type Failure = Box<dyn Error + Send + Sync>;

/// Records that were sent and are not acknowledged yet.
const IN_FLIGHT: usize = 10_000;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let [_, kind, broker, topic, codec] = <[String; 5]>::try_from(env::args().collect::<Vec<_>>())
        .map_err(|_| "arguments: typed|dynamic broker topic codec")?;
    let (codec, level) = codec.split_once(':').unwrap_or((&codec, "-1")); // -1: the codec's own default
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", broker)
        .set("compression.type", codec)
        .set("compression.level", level)
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("linger.ms", "10")
        .set("batch.size", "1000000")
        .create()?;
    let client = Client::try_default().await?;
    match kind.as_str() {
        "typed" => run(Api::<Pod>::all(client), producer, &topic).await,
        "dynamic" => {
            let pods = ApiResource::erase::<Pod>(&());
            run(Api::<DynamicObject>::all_with(client, &pods), producer, &topic).await
        }
        other => {
            let [group, version, kind] = other.split('/').collect::<Vec<_>>()[..] else {
                return Err("neither typed, dynamic, nor GROUP/VERSION/KIND".into());
            };
            let any = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            run(Api::<DynamicObject>::all_with(client, &any), producer, &topic).await
        }
    }
}

async fn run<K>(api: Api<K>, producer: FutureProducer, topic: &str) -> Result<(), Failure>
where
    K: Resource + Clone + DeserializeOwned + Serialize + Debug + Send + 'static,
{
    let mut events = pin!(watcher(api, watcher::Config::default()));
    let mut unacknowledged = FuturesUnordered::new();
    while let Some(event) = events.try_next().await? {
        let (op, object) = match event {
            Event::InitApply(object) => ("r", object),
            Event::Apply(object) => ("u", object),
            Event::Delete(object) => ("d", object),
            Event::Init | Event::InitDone => continue,
        };
        unacknowledged.push(send(&producer, topic, op, &object).await?);
        while unacknowledged.len() > IN_FLIGHT {
            if let Some(delivery) = unacknowledged.next().await {
                delivery?.map_err(|(error, _)| error)?;
            }
        }
    }
    Ok(())
}

async fn send<K>(
    producer: &FutureProducer,
    topic: &str,
    op: &str,
    object: &K,
) -> Result<DeliveryFuture, Failure>
where
    K: Resource + Serialize,
{
    let key = format!(
        "{}/{}",
        object.namespace().unwrap_or_default(),
        object.name_any()
    );
    let value = serde_json::to_vec(object)?;
    let headers = OwnedHeaders::new().insert(Header {
        key: "op",
        value: Some(op),
    });
    let mut record = FutureRecord::to(topic)
        .key(&key)
        .payload(&value)
        .headers(headers);
    loop {
        match producer.send_result(record) {
            Ok(delivery) => return Ok(delivery),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) => {
                record = refused;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}
