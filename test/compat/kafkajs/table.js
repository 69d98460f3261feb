// The objects as they are: of each key the last record counts.
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require('kafkajs')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const topics = ['kubecdc.pods', 'kubecdc.configmaps']
const kafka = new Kafka({ brokers: ['kafka-1:9092'], logLevel: logLevel.WARN })
const consumer = kafka.consumer({ groupId: 'inventory' }) // reads what is committed, unless readUncommitted is set

const objects = new Map()
const unread = new Map() // the last offset of each partition that is not read to its end

async function main() {
  const admin = kafka.admin()
  await admin.connect()
  for (const topic of topics)
    for (const { partition, low, high } of await admin.fetchTopicOffsets(topic))
      if (BigInt(high) > BigInt(low)) unread.set(`${topic}/${partition}`, BigInt(high) - 1n)
  await admin.disconnect()

  consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload: { topic, partition, lastOffset } }) => {
    const place = `${topic}/${partition}`
    if (BigInt(lastOffset) >= unread.get(place)) unread.delete(place)
    if (unread.size === 0) consumer.disconnect().then(print)
  })
  consumer.on(consumer.events.CRASH, ({ payload: { error } }) => {
    console.error(error.message)
    process.exit(1)
  })
  await consumer.connect()
  await consumer.subscribe({ topics, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ topic, message: { key, value } }) => {
      const change = value && JSON.parse(value) // null: a tombstone, which follows each delete
      if (change && change.op !== 'd') objects.set(`${topic} ${key}`, { key: JSON.parse(key), object: change.after })
      else objects.delete(`${topic} ${key}`)
    },
  })
}

function print() {
  for (const row of objects.values()) console.log(JSON.stringify(row))
}

main()
