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
import { ConfigError, readConfig } from '@baton/service/config'
import { CHECK_CONFIG, orExit, sayWhyNotStarted } from '@baton/service/run-service'
import { appVariables } from '@baton/service/app-variables'
import { allVariables, secretPattern } from '@baton/service/variables'
import { startAgent } from './agent.ts'

const text = { type: 'string' } as const
const options = { port: text, host: text, log: text, [CHECK_CONFIG.slice(2)]: { type: 'boolean' } } as const

function readOptions() {
  try {
    return parseArgs({ options }).values
  } catch (error) {
    throw new ConfigError([(error as Error).message])
  }
}

function read() {
  const config = readConfig(process.env, appVariables.agent, { others: allVariables, patterns: [secretPattern] })
  const { port, host, log } = readOptions()
  return {
    port: port === undefined ? config.BATON_PORT : Number(port),
    host: host ?? config.BATON_HOST,
    log: log ?? null,
  }
}

const agent = await startAgent(orExit(read, { hasOptions: true })).catch((error: unknown) => {
  sayWhyNotStarted(error)
  throw error
})
process.stdout.write(`${JSON.stringify({ url: agent.url })}\n`)

const stop = () => void agent.close().then(() => process.exit(0))
process.once('SIGTERM', stop)
process.once('SIGINT', stop)
