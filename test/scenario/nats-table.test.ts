import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Alert } from '@baton/core/records'
import { readAlert, storeAlert } from '@baton/store/alerts'
import { publishTopic } from '@baton/store/publish-topic'
import { readStatus, requestCancel } from '@baton/store/registry'
import { Child } from '../kit/child.ts'
import { eventually } from '../kit/eventually.ts'
import { findBinary, root } from '../kit/find-binary.ts'
import { readTables } from '../kit/readme-table.ts'
import { System } from '../kit/system.ts'
import { Terminal } from '../kit/terminal.ts'

/**
 * Every line of the tables in nats/README.md, as it stands there, against a running system. Of each it is known what it
 * has to say, or to bring about; a line that nobody has written that down for fails.
 */

const tables = readTables('nats/README.md', 'to')

/** What a line is run with: a run of its own, which is live unless the line itself asks for it. */
type Place = { readonly run: string; readonly boot: string }

type Expectation = {
  /** What it says, of the run in its place. */
  readonly says?: (place: Place) => RegExp
  /** What is so after it. */
  readonly brings?: (place: Place) => Promise<unknown>
  /** It goes on until it is stopped, and is given something to hear again and again. */
  readonly hears?: (place: Place) => Promise<unknown>
  /** What it says when it is run once more. */
  readonly again?: RegExp
  readonly isNew?: true
  readonly onTerminal?: true
}

let system: System
beforeAll(async () => {
  system = await System.start({ relays: 2, edges: 1 })
}, 60_000)
afterAll(() => system[Symbol.asyncDispose]())

const nothing = () => Promise.resolve()
const mentionsRun = ({ run }: Place) => new RegExp(run)
const isOwned = ({ run }: Place) => eventually(`${run} has an owner`, () => system.claim(run))
const isCancelled = ({ run }: Place) =>
  eventually(`${run} is cancelled`, async () => (await readStatus(system.store, run))?.end?.reason === 'cancelled')

/** A verdict on the run that differs from the last one. */
async function tell({ run }: Place): Promise<void> {
  const { sequence, alert } = await readAlert(system.store, run)
  const verdict = alert?.verdict === 'quiet' ? 'stalled' : 'quiet'
  const since = new Date().toISOString()
  const news: Alert = { run, verdict, previous: alert?.verdict ?? 'running', since, epoch: 1 }
  await storeAlert(system.store, news, sequence, 'test')
}

const publish = ({ run }: Place) => publishTopic(system.store, { topic: 'orders.42', data: run, type: null }, null)

async function isDrained({ boot }: Place): Promise<void> {
  const gone = await eventually('a relay has ended', () => system.relays.find(({ child }) => child.exit !== null))
  expect(gone.child.exit).toEqual({ code: 0, signal: null })
  expect(gone.output).toContain(boot)
  await system.heal()
}

const EXPECTED: Readonly<Record<string, { baton?: Expectation; nats: Expectation }>> = {
  'have a run relayed': { baton: { isNew: true, brings: isOwned }, nats: { isNew: true, brings: isOwned } },
  'see what is wanted': { baton: { says: mentionsRun }, nats: { says: mentionsRun } },
  'see how a run stands': {
    baton: { says: ({ run }) => new RegExp(`run +${run}\\n(.*\\n)*owner +relay-\\d`) },
    nats: { says: () => /"state":"running".*"relay":"relay-\d"/ },
  },
  'see who has what now': {
    baton: { says: ({ run }) => new RegExp(`${run} +running +relay-\\d`) },
    nats: { says: ({ run }) => new RegExp(`${run}.*"relay":"relay-\\d"`) },
  },
  'see who takes what, and when': {
    baton: { says: ({ run }) => new RegExp(`${run} .*owner relay-\\d`), hears: nothing },
    nats: { says: ({ run }) => new RegExp(`PUT claims > ${run}: .*"relay":"relay-\\d"`), hears: nothing },
  },
  'follow the events of a run, live': {
    baton: { says: () => /stream\.open[^]*\n +\d+ {2}/, hears: nothing },
    nats: { says: ({ run }) => new RegExp(`live\\.run\\.${run}`), hears: nothing },
  },
  'follow them from the first one kept': {
    baton: { says: () => /stream\.open[^]*\n +1 {2}/, hears: nothing },
    nats: { says: () => /Baton-Index: 1\b/, hears: nothing },
  },
  'see where the log of a run ends': {
    baton: { says: () => /"head":\{"sequence":\d+,"index":\d+\}/ },
    nats: { says: () => /Baton-Index: \d+/ },
  },
  'cancel a run': { baton: { brings: isCancelled }, nats: { brings: isCancelled } },
  'the same, and forget what was wanted': { baton: { brings: isCancelled }, nats: { brings: isCancelled } },
  'see the relays': {
    baton: { says: ({ boot }) => new RegExp(`relay-\\d +${boot}`) },
    nats: { says: ({ boot }) => new RegExp(`"boot":"${boot}"`), hears: nothing },
  },
  'have a relay hand its runs over and end': {
    baton: { says: ({ boot }) => new RegExp(`boot ${boot}\\) has handed over`), brings: isDrained },
    nats: { says: ({ boot }) => new RegExp(`"boot":"${boot}","runs":\\d+`), brings: isDrained },
  },
  'see what was last told of a run': {
    baton: { says: ({ run }) => new RegExp(`→ quiet +${run}`) },
    nats: { says: ({ run }) => new RegExp(`"run":"${run}","verdict":"quiet"`) },
  },
  'see all that was told': {
    baton: { says: ({ run }) => new RegExp(`→ quiet +${run}`) },
    nats: { says: ({ run }) => new RegExp(`"run":"${run}","verdict":"quiet"`) },
  },
  'hear of verdicts as they change': {
    baton: { says: ({ run }) => new RegExp(`→ stalled +${run}`), hears: tell },
    nats: { says: ({ run }) => new RegExp(`"run":"${run}","verdict":"stalled"`), hears: tell },
  },
  'publish an event of a topic': {
    baton: { says: () => /orders\.42 {2}\d+ {2}\d+-\d+/ },
    nats: { says: () => /"stream":"TOPICS", ?"seq":\d+/ },
  },
  'publish one once, whoever tries again': {
    baton: { says: () => /orders\.42 {2}\d+/, again: /\(stored before\)/ },
    nats: { says: () => /"stream":"TOPICS", ?"seq":\d+/, again: /"duplicate": ?true/ },
  },
  'follow topics, live': { baton: { says: mentionsRun, hears: publish }, nats: { says: mentionsRun, hears: publish } },
  'follow a topic from the first one kept': {
    baton: { says: mentionsRun, hears: publish },
    nats: { says: mentionsRun, hears: publish },
  },
  'see the streams as they should be': {
    baton: { says: () => /RUNS: as it should be/ },
    nats: { says: () => /RUNS .*events of runs/ },
  },
  'look for what is wrong': {
    baton: { says: () => /relays +relay-1.*relay-2/ },
    nats: { says: () => /RUNS/ },
  },
  'publish without waiting for the word of the store': { nats: { says: () => /Published \d+ bytes/ } },
  'see when a run last got somewhere': { nats: { says: () => /"job":"main"/ } },
  'see its owner record, whose sequence is the epoch': { nats: { says: () => /"relay":"relay-\d"/ } },
  'read its log, page by page (needs a terminal)': {
    nats: { says: () => /Baton-Index: 1\b/, hears: nothing, onTerminal: true },
  },
  'see the newest of every run, then what comes': {
    nats: { says: ({ run }) => new RegExp(`run\\.${run}\\b`), hears: nothing },
  },
  'ask a relay for a sign': { nats: { says: () => /Received with rtt/ } },
  'ask a relay to give some of its runs away': { nats: { says: () => /"runs":[01]/ } },
  'see how much is kept of whom (slow with very many runs)': { nats: { says: mentionsRun } },
  'see every bucket': { nats: { says: () => /heartbeats/ } },
}

/** The words of the table with this test's run, relay and agent in their places, as a shell would start them. */
function asTyped(line: string, { run, boot }: Place): string {
  const url = `${system.agents.url}/jobs/${run}/stream`
  const inPlace = line
    .replaceAll('http://127.0.0.1:9000/jobs/r1/stream', url)
    .replaceAll(/\br1\b/g, run)
    .replaceAll('<boot>', boot)
  const edge = line.startsWith('baton tail') ? ` --edge ${system.edgeUrl('')}` : ''
  return inPlace
    .replace(/^baton /, `exec '${process.execPath}' '${join(root, 'apps/cli/src/main.ts')}' `)
    .replace(/^nats /, `exec '${findBinary('nats') ?? 'nats'}' -s ${system.nats.url} `)
    .concat(edge)
}

let runs = 0

async function placeFor(expected: Expectation): Promise<Place> {
  const run = `row-${++runs}`
  if (expected.isNew !== true) {
    const job = system.agents.job(run, { events: 100_000, perSecond: 20 })
    await system.register(run, { url: job.url })
    // The registry of the edge, and whoever lists, may be a moment behind.
    await eventually(`${run} has events`, async () => ((await system.show(run)).head?.index ?? 0) > 3)
    await eventually(`${run} is running`, async () => (await readStatus(system.store, run))?.state === 'running')
    await tell({ run, boot: '' })
  }
  const claim = await eventually('somebody owns something', async () => {
    const owned = await Promise.all(Array.from({ length: runs }, (_, at) => system.claim(`row-${at + 1}`)))
    return owned.findLast((one) => one !== null) ?? (expected.isNew === true ? { boot: 'none' } : null)
  })
  return { run, boot: claim.boot }
}

async function holds(line: string, expected: Expectation): Promise<void> {
  const place = await placeFor(expected)
  const typed = asTyped(line, place)
  const environment = {
    PATH: process.env['PATH'] ?? '',
    HOME: system.nats.folder,
    BATON_NATS_URL: system.nats.url,
  }
  const pattern = expected.says?.(place)
  if (expected.onTerminal === true) {
    await using terminal = Terminal.start(['bash', '-c', typed], environment, { columns: 200 })
    await terminal.child.said(pattern ?? /./)
  } else {
    await using child = new Child(line, 'bash', ['-c', typed], environment)
    if (expected.hears === undefined) {
      const { code } = await child.exited
      expect(code, child.output).toBe(0)
      if (pattern !== undefined) expect(child.output).toMatch(pattern)
      if (expected.again !== undefined) {
        await using second = new Child(line, 'bash', ['-c', typed], environment)
        await second.said(expected.again)
      }
    } else {
      await eventually(
        `${line} says ${String(pattern)}`,
        async () => {
          await expected.hears?.(place)
          if (pattern?.test(child.output) !== true) throw new Error(`it said ${child.output.slice(-2000)}`)
          return true
        },
        { everyMs: 200, withinMs: 30_000 },
      )
    }
  }
  await expected.brings?.(place)
  await requestCancel(system.store, place.run)
}

test('each line has something that it must say or bring about', () => {
  expect(new Set(tables.map(([to]) => to))).toEqual(new Set(Object.keys(EXPECTED)))
})

describe('side by side', () => {
  for (const [to = '', first = '', second] of tables) {
    const expected = EXPECTED[to]
    const [withBaton, withNats] = second === undefined ? [null, first] : [first, second]
    if (withBaton !== null) {
      test(`${to}: ${withBaton}`, () => holds(withBaton, expected?.baton ?? {}), 60_000)
    }
    test(`${to}: ${withNats}`, () => holds(withNats, expected?.nats ?? {}), 60_000)
  }
})
