import { expect, test } from 'vitest'
import type { LogEntry, RunHistory } from '../kit/history.ts'
import { runEvent } from '../kit/write-events.ts'
import { addFigures, type Figure } from './figures.ts'
import type { Inflicted } from './inflict.ts'

const event = (sequence: number, index: number, epoch: number, storedAtMs: number): LogEntry => ({
  kind: 'event',
  sequence,
  storedAtMs,
  event: { ...runEvent(index, { epoch }), run: 'r', sequence },
})
const owner = (sequence: number, relay: string, storedAtMs: number): LogEntry => ({
  kind: 'owner',
  sequence,
  storedAtMs,
  owner: { relay, boot: `${relay}-boot`, since: '' },
})
const fault = (name: string, fromMs: number, toMs: number, hurt: readonly string[]): Inflicted => ({
  name,
  fault: name.startsWith('clock')
    ? { atMs: 0, kind: 'clock', role: 'relay', number: 0, shiftMs: 1 }
    : { atMs: 0, kind: 'kill', role: 'relay', number: 0, downMs: 1 },
  fromMs,
  toMs,
  hurt,
})
const opening = (connection: number, atMs: number) => ({ connection, url: '', lastEventId: null, status: 200, atMs })

/** relay-1 is killed at 2000; relay-2 stores at 2120 what a client has at 2150. */
const run: RunHistory = {
  run: 'r',
  jobs: [
    {
      job: 'main',
      replays: 'all',
      events: [
        { id: '1', name: null, data: 'a' },
        { id: '2', name: null, data: 'b' },
      ],
      connections: [
        { openedAtMs: 900, closedAtMs: 2000, firstEvent: 0, sent: 1 },
        { openedAtMs: 2100, closedAtMs: null, firstEvent: 0, sent: 2 },
      ],
    },
  ],
  log: [owner(1, 'relay-1', 1000), event(2, 1, 1, 1500), owner(3, 'relay-2', 2100), event(4, 2, 3, 2120)],
  clients: [
    {
      client: 'a',
      frames: [{ id: '4-2', event: null, data: 'b', retryMs: null, comments: [], atMs: 2150, connection: 2 }],
      openings: [opening(1, 1000), opening(2, 2050)],
      breach: null,
      firstIndex: 1,
    },
  ],
  over: false,
}
const figuresOf = (faults: readonly Inflicted[], outputs: Record<string, string> = {}): ReadonlyMap<string, Figure> => {
  const figures = new Map<string, Figure>()
  addFigures(figures, { history: { runs: [run] }, faults }, new Map(Object.entries(outputs)))
  return figures
}
const dead = (peer: string, atMs: number) =>
  `${JSON.stringify({ time: new Date(atMs).toISOString(), peer, peer_boot: 'x', how: 'silence', event: 'peer.dead' })}\n`

test('a takeover counts from the fault that hurt the owner, and for whoever was hurt', () => {
  const figures = figuresOf([
    fault('kill relay', 2000, 2050, ['relay-1']),
    fault('kill other', 2090, 2095, ['relay-3']),
  ])
  expect(figures.get('kill relay')).toMatchObject({
    faults: 1,
    takeoversMs: [120],
    firstEventsMs: [150],
    reconnects: 1,
  })
  expect(figures.get('kill other')).toMatchObject({ faults: 1, takeoversMs: [], readAgain: 1 })
})

test('a clock that jumps is the cause only where there is no other', () => {
  const clock = fault('clock relay', 2010, 9000, ['relay-1'])
  expect(figuresOf([fault('kill relay', 2000, 2050, ['relay-1']), clock]).get('clock relay')?.takeoversMs).toEqual([])
  expect(figuresOf([clock]).get('clock relay')?.takeoversMs).toEqual([110])
})

test('a relay taken for dead that nobody had hurt is a false suspicion; one that was hurt is not', () => {
  const kill = fault('kill relay', 2000, 2050, ['relay-1'])
  const said = { 'relay-2': dead('relay-1', 2080) + dead('relay-3', 2090) + dead('relay-3', 100) }
  expect(figuresOf([kill], said).get('kill relay')?.falseSuspicions).toBe(1)
})
