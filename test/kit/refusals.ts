import type { Nats } from '@baton/store/connect'
import { onRefusals, type Refusal } from '@baton/store/refusals'

/** Fails a test whose users lack a right. */
export function expectNone(refused: readonly string[]): void {
  if (refused.length > 0) throw new Error(`rights are missing:\n${refused.join('\n')}`)
}

export type Attempt = readonly [Refusal['operation'], string]

/**
 * Which of these the server refuses the user of a connection. A refusal is sent at once, so it is here before the answer
 * to a ping sent after the attempt.
 */
export async function refusals(nats: Nats, attempts: readonly Attempt[]): Promise<readonly Attempt[]> {
  const refused = new Set<string>()
  const stop = onRefusals(nats, ({ operation, subject }) => refused.add(`${operation} ${subject}`))
  for (const [operation, subject] of attempts) {
    if (operation === 'publish') nats.nc.publish(subject, 'a test')
    else nats.nc.subscribe(subject, { callback: () => undefined })
    await nats.nc.flush()
  }
  await nats.nc.flush()
  stop()
  return attempts.filter(([operation, subject]) => refused.has(`${operation} ${subject}`))
}
