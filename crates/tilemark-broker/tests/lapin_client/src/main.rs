//! Real exchanges by lapin, another client, against a broker: lapin-client PORT SCENARIO.

use futures_lite::StreamExt;
use lapin::options::*;
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let (port, scenario) = (arguments.next().ok_or("PORT")?, arguments.next().ok_or("SCENARIO")?);
    let uri = format!("amqp://guest:guest@127.0.0.1:{port}/%2f");
    let connection = Connection::connect(&uri, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    match scenario.as_str() {
        "publish_and_consume" => publish_and_consume(&channel).await?,
        "confirm" => confirm(&channel).await?,
        "nack" => nack(&channel).await?,
        "transactions" => transactions(&channel).await?,
        "topics" => topics(&channel).await?,
        "store" => {
            store(&channel).await?;
            // The broker is killed next: no goodbye.
            std::process::exit(0);
        }
        "recovered" => recovered(&channel).await?,
        _ => return Err("unknown scenario".into()),
    }
    connection.close(200, "done".into()).await?;
    Ok(())
}

async fn queue(channel: &Channel) -> Result<String, lapin::Error> {
    let options = QueueDeclareOptions { exclusive: true, ..Default::default() };
    let queue = channel.queue_declare("".into(), options, FieldTable::default()).await?;
    Ok(queue.name().as_str().to_owned())
}

async fn publish(
    channel: &Channel,
    exchange: &str,
    key: &str,
    body: &[u8],
    mode: u8,
) -> Result<lapin::Confirmation, lapin::Error> {
    let properties =
        BasicProperties::default().with_delivery_mode(mode).with_content_type("text/plain".into());
    let options = BasicPublishOptions { mandatory: true, ..Default::default() };
    channel.basic_publish(exchange.into(), key.into(), options, body, properties).await?.await
}

async fn publish_and_consume(channel: &Channel) -> Outcome {
    let name = queue(channel).await?;
    channel.basic_qos(10, BasicQosOptions::default()).await?;
    let options = BasicConsumeOptions::default();
    let mut consumer =
        channel.basic_consume(name.as_str().into(), "c".into(), options, FieldTable::default()).await?;
    let large = vec![7; 400_000];
    for number in 0..500 {
        publish(channel, "", &name, number.to_string().as_bytes(), 1).await?;
    }
    publish(channel, "", &name, &large, 1).await?;
    for number in 0..500 {
        let delivery = consumer.next().await.ok_or("the consumer ended")??;
        assert_eq!(delivery.data, number.to_string().as_bytes());
        assert_eq!(delivery.routing_key.as_str(), name);
        delivery.ack(BasicAckOptions::default()).await?;
    }
    let delivery = consumer.next().await.ok_or("the consumer ended")??;
    assert_eq!(delivery.data, large);
    Ok(())
}

async fn confirm(channel: &Channel) -> Outcome {
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let name = queue(channel).await?;
    for _ in 0..100 {
        let confirmation = publish(channel, "", &name, b"x", 1).await?;
        assert!(confirmation.is_ack());
        assert!(confirmation.take_message().is_none());
    }
    let returned =
        publish(channel, "", "nowhere", b"back", 1).await?.take_message().ok_or("it was not returned")?;
    assert_eq!((returned.delivery.data.as_slice(), returned.reply_code), (&b"back"[..], 312));
    Ok(())
}

async fn nack(channel: &Channel) -> Outcome {
    let name = queue(channel).await?;
    for number in 0..3_u8 {
        publish(channel, "", &name, &[number], 1).await?;
    }
    let mut tags = Vec::new();
    while let Some(message) = channel.basic_get(name.as_str().into(), BasicGetOptions::default()).await? {
        tags.push(message.delivery_tag);
    }
    channel.basic_reject(tags[2], BasicRejectOptions { requeue: false }).await?;
    channel.basic_nack(tags[1], BasicNackOptions { multiple: true, requeue: true }).await?;
    for number in 0..2_u8 {
        let message = channel
            .basic_get(name.as_str().into(), BasicGetOptions { no_ack: true })
            .await?
            .ok_or("empty")?;
        assert_eq!((message.data.as_slice(), message.redelivered), (&[number][..], true));
    }
    Ok(())
}

async fn transactions(channel: &Channel) -> Outcome {
    let name = queue(channel).await?;
    channel.tx_select().await?;
    publish(channel, "", &name, b"dropped", 1).await?;
    channel.tx_rollback().await?;
    publish(channel, "", &name, b"kept", 1).await?;
    channel.tx_commit().await?;
    let message =
        channel.basic_get(name.as_str().into(), BasicGetOptions { no_ack: true }).await?.ok_or("empty")?;
    assert_eq!(message.data, b"kept");
    Ok(())
}

async fn topics(channel: &Channel) -> Outcome {
    let options = ExchangeDeclareOptions { auto_delete: true, ..Default::default() };
    channel.exchange_declare("lapin".into(), ExchangeKind::Topic, options, FieldTable::default()).await?;
    let name = queue(channel).await?;
    for key in ["a.*", "#.z"] {
        channel
            .queue_bind(
                name.as_str().into(),
                "lapin".into(),
                key.into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            )
            .await?;
    }
    for key in ["a.b", "a.b.c", "a.z", "z"] {
        publish(channel, "lapin", key, key.as_bytes(), 1).await?;
    }
    let mut seen = Vec::new();
    while let Some(message) =
        channel.basic_get(name.as_str().into(), BasicGetOptions { no_ack: true }).await?
    {
        seen.push(String::from_utf8(message.delivery.data)?);
    }
    assert_eq!(seen, ["a.b", "a.z", "z"]);
    let options = QueueDeclareOptions { passive: true, ..Default::default() };
    let absent = channel.queue_declare("absent".into(), options, FieldTable::default()).await;
    assert!(absent.is_err_and(
        |error| error.to_string().contains("NOT_FOUND") || error.to_string().contains("NOT-FOUND")
    ));
    Ok(())
}

async fn store(channel: &Channel) -> Outcome {
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare("lapin-kept".into(), options, FieldTable::default()).await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    for number in 0..50 {
        assert!(publish(channel, "", "lapin-kept", number.to_string().as_bytes(), 2).await?.is_ack());
    }
    Ok(())
}

async fn recovered(channel: &Channel) -> Outcome {
    for number in 0..50 {
        let message =
            channel.basic_get("lapin-kept".into(), BasicGetOptions { no_ack: true }).await?.ok_or("lost")?;
        assert_eq!(message.data, number.to_string().as_bytes());
        assert_eq!(message.properties.delivery_mode(), &Some(2));
    }
    assert_eq!(channel.queue_delete("lapin-kept".into(), QueueDeleteOptions::default()).await?, 0);
    Ok(())
}
