/** A run id or a job name becomes a NATS subject token and a KV key as it is, so its alphabet is theirs. */
const token = /^[A-Za-z0-9_-]{1,64}$/

/** The run id `events` would collide with the route `/runs/events`. */
export const isRunId = (text: string): boolean => token.test(text) && text !== 'events'

export const isJobName = (text: string): boolean => token.test(text)

/** A topic: 1–8 tokens joined by dots; the first is not `stream`, whose names are Baton's own. */
export function isTopic(text: string): boolean {
  const tokens = text.split('.')
  return tokens.length <= 8 && tokens[0] !== 'stream' && tokens.every((part) => token.test(part))
}

/** A topic filter: a topic in which `*` stands for one token and a last `>` for one or more, as in NATS. */
export function isTopicFilter(text: string): boolean {
  const tokens = text.split('.')
  return (
    tokens.length <= 8 &&
    tokens[0] !== 'stream' &&
    tokens.every((part, at) => part === '*' || (part === '>' && at === tokens.length - 1) || token.test(part))
  )
}
