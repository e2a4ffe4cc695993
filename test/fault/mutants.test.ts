import { describe, expect, test } from 'vitest'
import type { Violation } from '../kit/history.ts'
import { createMutant, type Patch } from './mutant.ts'
import { silentBeyondTheLog } from './provoke-checkpoint.ts'
import { followerBehind } from './provoke-follower.ts'
import { setCutOff } from './provoke-set.ts'
import {
  appendBeforeOwnerRecord,
  edgeCutOff,
  lateAppendAfterReconnect,
  lateAppendAfterTakeover,
  manyReturns,
} from './provoke.ts'

/**
 * Each safeguard taken out of a copy of the source, under a schedule made to need it: the checker must see what then
 * goes wrong, and must see nothing wrong with the source as it is.
 */
type Case = {
  readonly safeguard: string
  readonly patches: readonly Patch[]
  readonly provoke: (source?: string) => Promise<Violation[]>
  /** Of these at least one is broken without the safeguard. */
  readonly breaks: readonly Violation['invariant'][]
}

const ATTEMPTS = 4

const cases: readonly Case[] = [
  {
    safeguard: 'the fence of an append',
    patches: [
      {
        file: 'libs/store/src/write-log.ts',
        find: `  map.set('Nats-Expected-Last-Subject-Sequence', String(fence.epoch))
  map.set('Nats-Expected-Last-Subject-Sequence-Subject', ownerSubject(fence.run))
`,
        replace: `  void fence
`,
      },
    ],
    provoke: lateAppendAfterTakeover,
    breaks: ['I1', 'I3'],
  },
  {
    safeguard: 'the new epoch after an unknown outcome',
    patches: [
      {
        file: 'apps/relay/src/append.ts',
        find: `const { fence, tail } = await this.#deps.takeOver()`,
        replace: `const fence = this.#fence
    const tail = await readTailSometime(this.#deps.nats, fence)`,
      },
      {
        file: 'apps/relay/src/append.ts',
        find: `function quiet(): PromiseWithResolvers<void> {`,
        replace: `async function readTailSometime(nats: Nats, fence: Fence): Promise<Tail> {
  const { readTail } = await import('@baton/store/write-log')
  for (;;) {
    try {
      return await readTail(nats, fence)
    } catch (error) {
      if (!isCode(error, 'unavailable')) throw error
    }
  }
}

function quiet(): PromiseWithResolvers<void> {`,
      },
    ],
    provoke: lateAppendAfterReconnect,
    breaks: ['I1'],
  },
  {
    safeguard: 'the index check on what is heard live',
    patches: [
      {
        file: 'libs/core/src/splice.ts',
        find: `continues: (last, { index, previous }) => index === last.mark + 1 && previous === last.sequence,`,
        replace: `continues: (last, { index }) => index > last.mark,`,
      },
    ],
    provoke: edgeCutOff,
    breaks: ['I2'],
  },
  {
    safeguard: 'the seam between replay and live',
    patches: [
      {
        file: 'apps/edge/src/feed.ts',
        find: `client.attach(this, number)`,
        replace: `client.attach(this, number + 1)`,
      },
    ],
    provoke: manyReturns,
    breaks: ['I2'],
  },
  {
    safeguard: 'the owner record before the look at the tail',
    patches: [
      {
        file: 'libs/store/src/take-epoch.ts',
        find: `      const epoch = await assertOwner(nats, run, sequence, record)
      const fence = { run, epoch }
      return { fence, tail: await tailOf(nats, fence, claim, signal) }`,
        replace: `      const tail = await tailOf(nats, { run, epoch: sequence }, claim, signal)
      const epoch = await assertOwner(nats, run, sequence, record)
      return { fence: { run, epoch }, tail }`,
      },
    ],
    provoke: appendBeforeOwnerRecord,
    breaks: ['I1'],
  },
  {
    safeguard: 'the epoch that an answer of a replica must show',
    patches: [
      {
        file: 'libs/store/src/write-log.ts',
        find: `  if (read === 'behind') return read
`,
        replace: ``,
      },
      // Or else a busy machine would have the leader asked, who knows.
      {
        file: 'libs/store/src/write-log.ts',
        find: `const TAIL_TIMEOUT_MS = 100`,
        replace: `const TAIL_TIMEOUT_MS = 1000`,
      },
    ],
    provoke: followerBehind,
    breaks: ['I1'],
  },
  {
    safeguard: 'the one consumer of a set',
    patches: [
      {
        file: 'apps/edge/src/timed-scope.ts',
        find: `    // Each new consumer makes sure first that it is still the same stream.
`,
        replace: `    if (this.part.stream === 'TOPICS') {
      const feeds = this.part.subjects.map((subject) => followTopic(this.#nats, subject.slice('topic.'.length), hear))
      const ready = Promise.all(feeds.map((feed) => feed.ready)).then(() => undefined)
      return { ready, from: () => undefined, close: () => feeds.forEach((feed) => feed.close()) }
    }
`,
      },
    ],
    provoke: setCutOff,
    breaks: ['I2'],
  },
  {
    safeguard: 'the checkpoint',
    patches: [
      {
        file: 'libs/store/src/read-cursors.ts',
        find: `const checkpoint = tail.checkpoint ?? EMPTY_CHECKPOINT`,
        replace: `const checkpoint = EMPTY_CHECKPOINT`,
      },
    ],
    provoke: silentBeyondTheLog,
    breaks: ['I1'],
  },
]

describe.for(cases)('$safeguard', ({ patches, provoke, breaks }) => {
  test('keeps every promise under a schedule that needs it', async () => {
    expect(await provoke()).toEqual([])
  })

  test('is missing, and the checker notices', async () => {
    await using mutant = await createMutant(patches)
    // A schedule that needs the safeguard makes harm likely, not certain: on a busy machine what it waits for comes late.
    let caught: Violation[] = []
    for (let attempt = 1; attempt <= ATTEMPTS && caught.length === 0; attempt++) {
      const violations = await provoke(mutant.source)
      caught = violations.filter(({ invariant }) => breaks.includes(invariant))
    }
    expect(caught).not.toEqual([])
  })
})
