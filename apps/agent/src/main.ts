/**
 * The scripted SSE agent: for the demo, the tests and for trying things by hand. It knows nothing of NATS.
 *
 *   node apps/agent/src/main.ts [--port N] [--host ADDRESS] [--log FOLDER]
 *
 * Port and host may also come from BATON_PORT (default 9000; 0 = a free one) and BATON_HOST (default 127.0.0.1). With
 * `--log`, FOLDER/agent.jsonl says every connection, every event wholly sent and every other answer (sent-log.ts).
 * The first line on stdout is `{"url": …}`.
 *
 *   GET  /jobs/:job/stream?…    the events; the first request for a job makes it, its query says how it behaves
 *                               (job-options.ts). Without a query it is the demo: a run of about three minutes
 *   POST /jobs/:job?…           makes the job, so that it emits before anybody listens
 *   GET  /jobs/:job             state, what was emitted, how many connections are and were open
 *   GET  /jobs/:job/emission    the same with all events emitted so far and all connections
 *   POST /jobs/:job/cut         cuts its connections in the middle of an event
 *   POST /jobs/:job/answers?next=503x2,redirect    what the next requests are answered before it streams again
 *   POST /jobs/:job/cancel      ends its emission where it stands
 *   GET  /livez, /readyz
 */
import { parseArgs } from 'node:util'
import { readConfig } from '@baton/service/config'
import { orExit, sayWhyNotStarted } from '@baton/service/run-service'
import { appVariables } from '@baton/service/app-variables'
import { allVariables, secretPattern } from '@baton/service/variables'
import { startAgent } from './agent.ts'

const config = orExit(() =>
  readConfig(process.env, appVariables.agent, { others: allVariables, patterns: [secretPattern] }),
)
const { values } = parseArgs({
  options: { port: { type: 'string' }, host: { type: 'string' }, log: { type: 'string' } },
})
const agent = await startAgent({
  port: values.port === undefined ? config.BATON_PORT : Number(values.port),
  host: values.host ?? config.BATON_HOST,
  log: values.log ?? null,
}).catch((error: unknown) => {
  sayWhyNotStarted(error)
  throw error
})
process.stdout.write(`${JSON.stringify({ url: agent.url })}\n`)

const stop = () => void agent.close().then(() => process.exit(0))
process.once('SIGTERM', stop)
process.once('SIGINT', stop)
