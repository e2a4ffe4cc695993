import { END, GAP, type StoredEvent } from '@baton/core/event'
import { describe, expect, test } from 'vitest'
import { check } from './checker.ts'
import type { ClientHistory, JobEmission, LogEntry, RunHistory } from './history.ts'
import type { Received } from './sse-client.ts'

/** Ten emitted events, stored under two owners, followed by a client that reconnected once: nothing wrong with it. */
const EMITTED = 10
const owner = (sequence: number): LogEntry => ({
  kind: 'owner',
  sequence,
  owner: { relay: 'r', boot: `b${sequence}`, since: '2026-11-30T00:00:00Z' },
})

const emission = (fields: Partial<JobEmission> = {}): JobEmission => ({
  job: 'main',
  replays: 'all',
  events: Array.from({ length: EMITTED }, (_, at) => ({
    id: at % 2 === 0 ? `u${at + 1}` : null,
    name: 'token',
    data: `{"n":${at + 1}}`,
  })),
  connections: [
    { openedAtMs: 0, closedAtMs: 1000, firstEvent: 0 },
    { openedAtMs: 1100, closedAtMs: 2000, firstEvent: 5 },
  ],
  ...fields,
})

/** `place` counts the job's emission from 1. */
function stored(
  place: number,
  fields: Partial<StoredEvent> & { index: number; sequence: number; epoch: number },
): LogEntry {
  const event: StoredEvent = {
    run: 'r1',
    job: 'main',
    type: 'token',
    name: 'token',
    upstreamId: `u${place % 2 === 1 ? place : place - 1}`,
    upstreamOffset: place % 2 === 1 ? 0 : 1,
    ordinal: place,
    time: '2026-11-30T00:00:00Z',
    data: `{"n":${place}}`,
    ...fields,
  }
  return { kind: 'event', sequence: event.sequence, event }
}

const bare = { job: null, type: END, name: END, upstreamId: null, upstreamOffset: null, ordinal: null } as const
const end = (index: number, sequence: number, epoch: number): LogEntry =>
  stored(0, { index, sequence, epoch, ...bare, data: '{"reason":"completed"}' })
const gap = (index: number, sequence: number, epoch: number, reason = 'no-replay'): LogEntry =>
  stored(0, {
    index,
    sequence,
    epoch,
    ...bare,
    job: 'main',
    type: GAP,
    name: GAP,
    data: `{"job":"main","reason":"${reason}","lost":null}`,
  })

/** Places 1–5 under the owner record 1, 6–10 under 7, then the end: sequences 1 to 13. */
const soundLog = (): LogEntry[] => [
  owner(1),
  ...[1, 2, 3, 4, 5].map((place) => stored(place, { index: place, sequence: place + 1, epoch: 1 })),
  owner(7),
  ...[6, 7, 8, 9, 10].map((place) => stored(place, { index: place, sequence: place + 2, epoch: 7 })),
  end(11, 13, 7),
]

/** What a client of this log gets when its first connection breaks after the third event. */
function framesOf(log: readonly LogEntry[]): Received[] {
  const frame = (fields: Partial<Received>): Received => ({
    id: null,
    event: null,
    data: null,
    retryMs: null,
    comments: [],
    atMs: 0,
    connection: 1,
    ...fields,
  })
  const opening = (connection: number, id: string) =>
    frame({ connection, id, event: 'stream.open', data: '{}', retryMs: 300, comments: ['ok'] })
  const frames = [opening(1, '0-0')]
  for (const entry of log) {
    if (entry.kind !== 'event') continue
    const { index, sequence, name, data } = entry.event
    frames.push(frame({ connection: index > 3 ? 2 : 1, id: `${sequence}-${index}`, event: name, data }))
    if (index === 3) frames.push(opening(2, `${sequence}-3`))
  }
  return frames
}

const client = (frames: readonly Received[], fields: Partial<ClientHistory> = {}): ClientHistory => ({
  client: 'c1',
  frames,
  openings: [1, 2].map((connection) => ({ connection, url: 'http://edge', lastEventId: null, status: 200, atMs: 0 })),
  breach: null,
  firstIndex: 1,
  ...fields,
})

function history(fields: Partial<RunHistory> = {}): RunHistory {
  const log = fields.log ?? soundLog()
  return { run: 'r1', jobs: [emission()], log, clients: [client(framesOf(log))], over: true, ...fields }
}

const judged = (subject: RunHistory, allowances: Partial<Parameters<typeof check>[1]> = {}): string[] =>
  check(subject, { overlapMs: 500, nowMs: 5000, ...allowances }).map(({ invariant, what }) => `${invariant} ${what}`)

/** Expects complaints of this invariant that say this, and at least one of them. */
const expectOnly = (complaints: readonly string[], invariant: string, words: RegExp) => {
  expect(complaints.length).toBeGreaterThan(0)
  expect(
    complaints.some((one) => one.startsWith(invariant) && words.test(one)),
    complaints.join('\n'),
  ).toBe(true)
}

test('a sound history has no violation', () => {
  expect(judged(history())).toEqual([])
})

test('a history that ends early is sound while the run goes on', () => {
  const log = soundLog().slice(0, 4)
  expect(judged(history({ log, over: false, clients: [client(framesOf(log))] }))).toEqual([])
})

describe('I1: the log is the emission', () => {
  const broken = (change: (log: LogEntry[]) => void): string[] => {
    const log = soundLog()
    change(log)
    return judged(history({ log, clients: [] }))
  }
  const renumber = (log: LogEntry[]) => {
    let index = 0
    for (const [at, entry] of log.entries()) {
      if (entry.kind === 'event') log[at] = { ...entry, event: { ...entry.event, index: ++index } }
    }
  }

  test('a jump in the index is found', () => {
    expectOnly(
      broken((log) => log.splice(3, 1)),
      'I1',
      /index 4, after 2 it must be 3/,
    )
  })

  test('a lost event is found, also when the index hides it', () => {
    const complaints = broken((log) => {
      log.splice(3, 1)
      renumber(log)
    })
    expectOnly(complaints, 'I1', /emitted events 3 to 3 are missing, and no stream.gap covers them/)
  })

  test('an event stored twice is found', () => {
    const complaints = broken((log) => {
      log.splice(4, 0, stored(3, { index: 0, sequence: 4, epoch: 1 }))
      renumber(log)
    })
    expectOnly(complaints, 'I1', /emitted event 3 is stored again/)
  })

  test('two events in the wrong order are found', () => {
    const complaints = broken((log) => {
      const [third, fourth] = [log[3], log[4]]
      if (third === undefined || fourth === undefined) throw new Error('the sound log is shorter than thought')
      log.splice(3, 2, fourth, third)
      renumber(log)
    })
    expectOnly(complaints, 'I1', /stored again|missing/)
  })

  test('changed data is found', () => {
    expectOnly(
      broken((log) => log.splice(3, 1, stored(3, { index: 3, sequence: 4, epoch: 1, data: 'x' }))),
      'I1',
      /never emitted/,
    )
  })

  test('a wrong upstream id, offset or ordinal is found', () => {
    const change = (fields: Partial<StoredEvent>) =>
      broken((log) => log.splice(3, 1, stored(3, { index: 3, sequence: 4, epoch: 1, ...fields })))
    expectOnly(change({ upstreamId: 'u1' }), 'I1', /upstream id "u1", in force is "u3"/)
    expectOnly(change({ upstreamOffset: 7 }), 'I1', /upstream offset 7, in truth 0/)
    expectOnly(change({ ordinal: 9 }), 'I1', /ordinal 9, emitted as 3/)
  })

  test('a run that is over with its last events missing is found', () => {
    const complaints = broken((log) => {
      log.splice(-3, 2)
      renumber(log)
    })
    expectOnly(complaints, 'I1', /only the first 8 are stored/)
  })

  test('a missing end, and anything after the end, are found', () => {
    expectOnly(
      broken((log) => log.pop()),
      'I1',
      /no stream.end/,
    )
    expectOnly(
      broken((log) => log.push(stored(10, { index: 12, sequence: 14, epoch: 7 }))),
      'I1',
      /after stream.end/,
    )
  })

  test('an event of a job that nobody registered is found', () => {
    expectOnly(
      broken((log) => log.splice(3, 1, stored(3, { index: 3, sequence: 4, epoch: 1, job: 'other' }))),
      'I1',
      /nobody registered/,
    )
  })

  test('a stream.gap of an agent that can replay is found', () => {
    const complaints = broken((log) => {
      log.splice(6, 0, gap(0, 7, 1))
      renumber(log)
    })
    expectOnly(complaints, 'I1', /the agent can replay/)
  })

  describe('of an agent that cannot replay', () => {
    /** Places 4 and 5 are lost; the second connection begins with place 6. */
    const lossy = (gaps: number, firstEvent = 5): string[] => {
      const log = soundLog().filter(({ sequence }) => sequence !== 5 && sequence !== 6)
      for (let at = 0; at < gaps; at++) log.splice(5, 0, gap(0, 8, 7))
      renumber(log)
      const connections = [
        { openedAtMs: 0, closedAtMs: 1000, firstEvent: 0 },
        { openedAtMs: 1100, closedAtMs: 2000, firstEvent },
      ]
      return judged(history({ log, clients: [], jobs: [emission({ replays: 'none', connections })] }))
    }

    test('what was emitted before anybody listened is not missed', () => {
      const log = soundLog().filter(({ sequence }) => sequence !== 2 && sequence !== 3)
      renumber(log)
      const from = (firstEvent: number) => [
        emission({ replays: 'none', connections: [{ openedAtMs: 0, closedAtMs: 1, firstEvent }] }),
      ]
      expect(judged(history({ log, clients: [], jobs: from(2) }))).toEqual([])
      expectOnly(judged(history({ log, clients: [], jobs: from(1) })), 'I1', /events 1 to 2 are missing/)
    })

    test('a hole covered by one stream.gap is sound', () => {
      expect(lossy(1)).toEqual([])
    })

    test('a hole without a stream.gap is found', () => {
      expectOnly(lossy(0), 'I1', /events 4 to 5 are missing, and no stream.gap/)
    })

    test('two gaps in a row are found', () => {
      expectOnly(lossy(2), 'I1', /second stream.gap/)
    })

    test('a hole that goes on past the next connection is found', () => {
      expectOnly(lossy(1, 4), 'I1', /past the first event of the next connection/)
    })
  })
})

describe('I2: the client sees the log', () => {
  const broken = (change: (frames: Received[]) => void, fields: Partial<ClientHistory> = {}): string[] => {
    const frames = framesOf(soundLog())
    change(frames)
    return judged(history({ clients: [client(frames, fields)] }))
  }
  const at = (frames: readonly Received[], index: number): number =>
    frames.findLastIndex((one) => one.id?.endsWith(`-${index}`))

  test('a skipped event is found', () => {
    expectOnly(
      broken((frames) => frames.splice(at(frames, 6), 1)),
      'I2',
      /index 7 .* must be 6/,
    )
  })

  test('a repeated event is found', () => {
    const complaints = broken((frames) =>
      frames.splice(at(frames, 6), 0, ...frames.slice(at(frames, 5), at(frames, 6))),
    )
    expectOnly(complaints, 'I2', /index 5 .* must be 6/)
  })

  test('an event repeated by the splice after a reconnect is found', () => {
    const complaints = broken((frames) => {
      const third = frames.find((one) => one.id === '4-3' && one.event === 'token')
      if (third !== undefined) frames.splice(at(frames, 4), 0, { ...third, connection: 2 })
    })
    expectOnly(complaints, 'I2', /index 3 on connection 2, it must be 4/)
  })

  test('data other than the log has is found', () => {
    const complaints = broken((frames) => {
      const place = at(frames, 6)
      const frame = frames[place]
      if (frame !== undefined) frames[place] = { ...frame, data: 'x' }
    })
    expectOnly(complaints, 'I2', /other data/)
  })

  test('a missing end, an end twice, an event after it are found', () => {
    expectOnly(
      broken((frames) => frames.pop()),
      'I2',
      /never got stream.end/,
    )
    expectOnly(
      broken((frames) => frames.push(...frames.slice(-1))),
      'I2',
      /after the end/,
    )
  })

  test('a reset nobody had to send is found, and one that is allowed is not', () => {
    const reset = (frames: Received[]) => {
      const place = frames.findIndex((one) => one.connection === 2)
      const opening = frames[place]
      if (opening === undefined) throw new Error('the sound client has one connection')
      frames.splice(place, 3, { ...opening, event: 'stream.reset', id: '7-5' })
    }
    expectOnly(broken(reset), 'I2', /stream.reset nobody had to send/)
    const frames = framesOf(soundLog())
    reset(frames)
    expect(judged(history({ clients: [client(frames)] }), { resets: true })).toEqual([])
  })

  test('a response that begins with an event, or opens twice, is found', () => {
    expectOnly(
      broken((frames) => frames.shift()),
      'I2',
      /begins with token/,
    )
    expectOnly(
      broken((frames) => frames.splice(1, 0, ...frames.slice(0, 1))),
      'I2',
      /a later stream.open/,
    )
  })

  test('a status that ends an EventSource is found; 204 is right only for those who have the end', () => {
    const opening = (status: number, connection: number) => ({
      connection,
      url: '',
      lastEventId: null,
      status,
      atMs: 0,
    })
    expectOnly(
      broken(() => undefined, { openings: [opening(503, 2)] }),
      'I2',
      /answered 503/,
    )
    expectOnly(
      broken(() => undefined, { openings: [opening(204, 2)] }),
      'I2',
      /answered 204/,
    )
    expect(broken(() => undefined, { openings: [opening(204, 3)] })).toEqual([])
  })

  test('a breach of the wire format is found', () => {
    expectOnly(
      broken(() => undefined, { breach: 'a CR in a line' }),
      'I2',
      /a CR in a line/,
    )
  })
})

describe('I3: one writer', () => {
  const broken = (change: (log: LogEntry[]) => void): string[] => {
    const log = soundLog()
    change(log)
    return judged(history({ log, clients: [] })).filter((one) => one.startsWith('I3'))
  }

  test('an event of an old epoch after a newer owner record is found', () => {
    expectOnly(
      broken((log) => log.splice(8, 1, stored(7, { index: 7, sequence: 9, epoch: 1 }))),
      'I3',
      /after the owner record 7/,
    )
  })

  test('an epoch that goes back is found without any owner record', () => {
    const log = soundLog().filter(({ kind }) => kind === 'event')
    log.splice(6, 1, stored(7, { index: 7, sequence: 9, epoch: 1 }))
    expectOnly(judged(history({ log, clients: [] }), { ownersKnown: false }), 'I3', /after an event of epoch 7/)
  })

  test('an epoch without an owner record is found', () => {
    expectOnly(
      broken((log) => log.splice(0, 1)),
      'I3',
      /has no owner record/,
    )
  })
})

describe('I5: one tail', () => {
  const overlapping = (closedAtMs: number | null, frozen?: { fromMs: number; toMs: number }[]): string[] => {
    const connections = [
      { openedAtMs: 0, closedAtMs, firstEvent: 0 },
      { openedAtMs: 1000, closedAtMs: 4000, firstEvent: 5 },
    ]
    return judged(history({ jobs: [emission({ connections })] }), frozen === undefined ? {} : { frozen })
  }

  test('a short overlap is a suspicion window, a long one is found', () => {
    expect(overlapping(1400)).toEqual([])
    expectOnly(overlapping(1600), 'I5', /two connections for 600 ms/)
    expectOnly(overlapping(null), 'I5', /two connections for 3000 ms/)
  })

  test('the time a process was frozen does not count', () => {
    expect(overlapping(3400, [{ fromMs: 500, toMs: 3200 }])).toEqual([])
    expectOnly(overlapping(3400, [{ fromMs: 500, toMs: 2500 }]), 'I5', /two connections for 900 ms/)
  })
})
