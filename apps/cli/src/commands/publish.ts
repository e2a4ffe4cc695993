import { isTopic } from '@baton/core/ids'
import { formatPosition } from '@baton/core/position'
import type { Nats } from '@baton/store/connect'
import { messageId, publishTopic, type TopicMessage } from '@baton/store/publish-topic'
import { CommandError } from '../exit.ts'
import type { Print } from '../print.ts'

/** Whose keys these are: others' with the same text are not told apart from each other, but from these. */
const PUBLISHER = 'baton-cli'

/** Stores one event and says where. Throws as the store does; nothing is printed that is not stored. */
export async function publish(nats: Nats, message: TopicMessage, key: string | null, print: Print): Promise<void> {
  const { topic } = message
  if (!isTopic(topic)) throw new CommandError('usage', `${topic} is no topic: 1 to 8 names joined by dots`)
  const id = key === null ? null : messageId(PUBLISHER, topic, key)
  const { stream, sequence, position, duplicate } = await publishTopic(nats, message, id)
  const at = formatPosition(position)
  const value = { topic, stream, sequence, position: at, duplicate }
  print.result(value, `${topic}  ${sequence}  ${at}${duplicate ? '  (stored before)' : ''}`)
}
