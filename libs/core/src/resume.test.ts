import { describe, expect, test } from 'vitest'
import { advance, EMPTY_CHECKPOINT } from './cursor.ts'
import { Emission, headOf, type Emitted, type Head } from './emission.ts'
import { GAP } from './event.ts'
import { FRESH_CURSOR, type JobCursor } from './records.ts'
import { follows, Resume, type Step } from './resume.ts'
import type { JobSpec } from './run.ts'

type Mode = JobSpec['resume']

/** `1:a` = an event with id 1 and data a; `a` = data a without an id; `:a` = one that resets the id. */
function event(text: string): Emitted {
  const [id, data] = text.includes(':') ? text.split(':') : [null, text]
  return { id: id ?? null, name: null, data: data ?? '' }
}

const words = (text: string): string[] => text.split(' ').filter((word) => word !== '')

const spell = ({ id, data }: Emitted): string => (id === null ? data : `${id}:${data}`)

/** Steps as words: a taken event as it was written, `gap(reason)`. */
const said = (steps: readonly Step[]): string[] =>
  steps.map((step) => (step.do === 'take' ? spell(step.event) : `gap(${step.reason})`))

type Stand = { cursor: JobCursor; emission: Emission }

/** A job after `stored` was taken on its first connection; a word in brackets, `[5]`, moves the id alone. */
function after(stored: string, limit = 1000, anyId = false): Stand {
  const emission = new Emission(limit, 0, null, anyId)
  const resume = new Resume({ mode: 'auto', cursor: FRESH_CURSOR, sent: false, emission })
  for (const word of words(stored)) feed(resume, word)
  return { cursor: resume.cursor, emission }
}

function feed(resume: Resume, word: string): readonly Step[] {
  if (word === '(quiet)') return resume.takeQuiet()
  if (word === '(big)') return resume.tooLarge(null)
  const moved = /^\[(.*)\]$/.exec(word)
  if (moved === null) return resume.event(event(word))
  resume.moved(moved[1] ?? '')
  return []
}

/** One more connection: what is taken and said of what the agent sends. */
function connect(stand: Stand, mode: Mode, sends: string): { said: string[]; cursor: JobCursor; resume: Resume } {
  const { upstreamId } = stand.cursor
  const sent = upstreamId !== null && upstreamId !== ''
  const resume = new Resume({ mode, sent, ...stand })
  const steps = [...resume.open(), ...words(sends).flatMap((word) => feed(resume, word))]
  return { said: said(steps), cursor: resume.cursor, resume }
}

const NO_REPLAY = 'gap(no-replay)'
const DIVERGED = 'gap(diverged)'
const WINDOW = 'gap(window)'

/** What is stored, what comes back, what is made of it. */
type Row = readonly [name: string, stored: string, sends: string, result: string]

const auto: readonly Row[] = [
  ['nothing stored: all is new', '', '1:a b 2:c', '1:a b 2:c'],
  ['the id is honoured', '1:a 2:b', '3:c 4:d', '3:c 4:d'],
  ['the id is honoured: nothing comes', '1:a 2:b', '', ''],
  ['the un-ided events after the id come again', '1:a b c', 'b c d 2:e', 'd 2:e'],
  ['they come again, and nothing new yet', '1:a b c', 'b c', ''],
  ['they come again in part before the cut', '1:a b c', 'b', ''],
  ['they do not come again', '1:a b c', '2:d', '2:d'],
  ['they do not come again, and the new one has no id', '1:a b c', 'd e', 'd e'],
  ['they begin to come again and turn into something else', '1:a b c', 'b x y', `${DIVERGED} x y`],
  ['an un-ided event is no replay of the one with the id', '1:a', 'a 2:b', 'a 2:b'],
  ['equal un-ided events after the id', '1:a x x', 'x x x', 'x'],
  ['5 5 6 are three events', '4:a 5:b', '5:c 6:d', '5:c 6:d'],
  ['5 5 6, the second 5 stored too', '5:b 5:c', '6:d', '6:d'],
  ['one id on many events', '1:a 1:b', '1:c 1:d 2:e', '1:c 1:d 2:e'],
  ['one id on many events, from its first on', '1:a 1:b 1:c', '1:b 1:c 1:d', '1:d'],
  ['a full replay', '1:a 2:b 3:c', '1:a 2:b 3:c 4:d', '4:d'],
  ['a full replay with only some ids', 'x 1:a y 2:b z', 'x 1:a y 2:b z w 3:c', 'w 3:c'],
  ['a full replay that begins like what follows the id', 'x 1:a x', 'x 1:a x 2:b', '2:b'],
  ['a full replay is cut before it reaches the last stored event', '1:a 2:b 3:c', '1:a 2:b', ''],
  ['a full replay reaches it exactly', '1:a 2:b 3:c', '1:a 2:b 3:c', ''],
  ['a full replay in which ids repeat', '1:a 2:b 1:c 2:d', '1:a 2:b 1:c 2:d 1:e', '1:e'],
  ['a full replay in which ids and content repeat', '1:a 1:a 1:a', '1:a 1:a 1:a 1:a', '1:a'],
  ['the first sight of the last id does not end the replay', '5:a 6:b 5:c', '5:a 6:b 5:c 7:d', '7:d'],
  ['a window', '1:a 2:b 3:c 4:d', '3:c 4:d 5:e', '5:e'],
  ['a window, then quiet', '1:a 2:b 3:c 4:d', '3:c 4:d (quiet)', ''],
  ['a window that begins with an un-ided event', '1:a x 2:b', 'x 2:b 3:c', '3:c'],
  ['a window that has just passed looks honoured', '1:a 2:b', '4:d 5:e', '4:d 5:e'],
  ['ids begin anew with other content', '1:a 2:b 3:c', '1:x 2:y', `${DIVERGED} 1:x 2:y`],
  ['a replay turns into something else', '1:a 2:b 3:c', '1:a 2:x 3:c', `${DIVERGED} 2:x 3:c`],
  ['an id that names one of several is no sign of a new beginning', '1:a 2:b 1:c 2:d', '1:e 2:f', '1:e 2:f'],
  ['an un-ided event equal to an older one does not wait for ever', 'x 1:a x 2:b', 'x (quiet) x', 'x x'],
  ['nor does it get lost when the next one decides', 'x 1:a x 2:b', 'x 3:c', 'x 3:c'],
  ['the un-ided events after the id may wait in silence: they are stored', '1:a b c', 'b (quiet) c (quiet)', ''],
  ['without ids: a replay from the start', 'a b c', 'a b c d', 'd'],
  ['without ids: the replay is cut', 'a b c', 'a b', ''],
  ['without ids: the same thing said again and again', 'x x x', 'x x x x', 'x'],
  ['without ids: a window', 'a b c d', 'c d e', 'e'],
  ['without ids: the longest slice wins', 'a b a', 'a b a c', 'c'],
  ['without ids: a shorter slice when the longest is ruled out', 'a b a', 'a b d', 'b d'],
  ['without ids: a slice must end at the last stored event', 'a b c', 'a b x', `${DIVERGED} x`],
  ['without ids: nothing is replayed', 'a b c', 'd e', `${NO_REPLAY} d e`],
  ['without ids: nothing comes, nothing is said', 'a b c', '(quiet)', ''],
  ['the id was reset, so none is sent: a replay from the start', '1:a :b', '1:a :b c', 'c'],
  ['the id was reset and nothing is replayed', '1:a :b', 'd', `${NO_REPLAY} d`],
  ['the id moved alone: what it stands on is stored', '1:a b [2]', '3:c', '3:c'],
  ['the id moved alone, then an un-ided event comes again', '1:a [2] b', 'b c', 'c'],
]

const trusted: readonly Row[] = [
  ['what comes is new', '1:a 2:b', '3:c', '3:c'],
  ['even when it looks stored', '1:a 2:b 3:c', '1:a 2:b', '1:a 2:b'],
  ['but for the un-ided events after the id', '1:a b c', 'b c d', 'd'],
  ['which may also be left out', '1:a b c', 'd', 'd'],
  ['or turn into something else', '1:a b c', 'b x', `${DIVERGED} x`],
  ['no id stored: an honest agent starts over', 'a b', 'a b c', 'c'],
  ['no id stored and nothing replayed', 'a b', 'c', `${NO_REPLAY} c`],
  ['a window is not looked for', 'a b c', 'c d', `${NO_REPLAY} c d`],
]

const replay: readonly Row[] = [
  ['as many as are stored are skipped', '1:a 2:b', '1:a 2:b 3:c', '3:c'],
  ['without ids too', 'a b', 'a b c', 'c'],
  ['a window', '1:a 2:b 3:c', '3:c 4:d', '4:d'],
  ['a window that has passed', '1:a 2:b', '4:d 5:e', `${WINDOW} 4:d 5:e`],
  ['a window without ids that has passed', 'a b', 'd e', `${WINDOW} d e`],
  ['other content', '1:a 2:b', '1:a 2:x', `${DIVERGED} 2:x`],
  ['other content from the first event on', '1:a 2:b', '1:x 2:y', `${DIVERGED} 1:x 2:y`],
  ['an un-ided event is not waited for', 'x 1:a', 'x (quiet)', ''],
]

const never: readonly Row[] = [
  ['every reconnect is a gap', '1:a', '2:b', `${NO_REPLAY} 2:b`],
  ['also when nothing comes', '1:a', '', NO_REPLAY],
  ['also when the agent does replay', 'a b', 'a b', `${NO_REPLAY} a b`],
  ['but not where nothing was stored', '', 'a', 'a'],
]

describe.each([
  ['auto', auto],
  ['last-event-id', trusted],
  ['replay', replay],
  ['none', never],
] as const)('mode %s', (mode, rows) => {
  test.each(rows)('%s: stored %j, then %j', (_, stored, sends, result) => {
    expect(connect(after(stored), mode, sends).said).toEqual(words(result))
  })
})

describe('a gap', () => {
  test('is one for any number of reconnects that store nothing', () => {
    const stand = after('a b')
    const first = connect(stand, 'none', '')
    expect(first.said).toEqual([NO_REPLAY])
    const second = connect({ ...stand, cursor: first.cursor }, 'none', 'c')
    expect(second.said).toEqual(['c'])
    expect(connect({ ...stand, cursor: second.cursor }, 'none', 'd').said).toEqual([NO_REPLAY, 'd'])
  })

  test('repeats the last ordinal, and what has diverged goes on with its own', () => {
    const { resume } = connect(after('1:a 2:b 3:c 4:d'), 'auto', '1:a')
    expect(resume.event(event('2:x'))).toMatchObject([
      { do: 'gap', reason: 'diverged', lost: null, ordinal: 4, upstreamId: '4' },
      { do: 'take', ordinal: 2, upstreamId: '2', upstreamOffset: 0 },
    ])
    expect(resume.event(event('3:c'))).toMatchObject([{ do: 'take', ordinal: 3 }])
  })

  test('after a divergence replays are compared with the new emission', () => {
    const stand = after('1:a 2:b 3:c')
    const { cursor } = connect(stand, 'auto', '1:a 2:x 3:y')
    expect(connect({ ...stand, cursor }, 'auto', '1:a 2:x 3:y 4:z').said).toEqual(['4:z'])
  })

  test('is not said again when the divergence shows again before anything was stored after it', () => {
    const stand = after('1:a 2:b 3:c')
    const cursor = { ...stand.cursor, gap: true }
    expect(connect({ ...stand, cursor }, 'auto', '1:a 2:x').said).toEqual(['2:x'])
  })

  test('comes before every event that could not be held against what is stored, once', () => {
    const stand = after('a b')
    expect(connect(stand, 'auto', 'c d e').said).toEqual([NO_REPLAY, 'c', 'd', 'e'])
  })

  test('after one without a replay, the next replay from there on is known', () => {
    const stand = after('a b')
    const { cursor } = connect(stand, 'auto', 'd e')
    expect(connect({ ...stand, cursor }, 'auto', 'd e f').said).toEqual(['f'])
  })
})

describe('an event that is too large', () => {
  test('is a gap of one', () => {
    const { resume } = connect(after(''), 'auto', '1:a')
    expect(resume.tooLarge(null)).toEqual([
      { do: 'gap', reason: 'too-large', lost: 1, ordinal: 1, upstreamId: '1', upstreamOffset: 0 },
    ])
    expect(said(resume.tooLarge('2'))).toEqual(['gap(too-large)'])
    expect(resume.event(event('b'))).toMatchObject([{ ordinal: 2, upstreamId: '2', upstreamOffset: 1 }])
  })

  test.each<Row>([
    ['in what is replayed it is passed over', 'a (big) b', 'a (big) b c', 'c'],
    ['the one that made the last gap says nothing again', '1:a (big)', '(big) 2:b', '2:b'],
    ['the one that made the last gap, in a full replay', 'a b (big)', 'a b (big) c', 'c'],
    ['a new one behind a replay is a gap', 'a b', 'a b (big) c', 'gap(too-large) c'],
    ['a new one where the id is honoured is a gap', '1:a', '(big) 2:b', 'gap(too-large) 2:b'],
    ['a new one where the id is honoured does not wait for ever', '1:a', '(big) (quiet)', 'gap(too-large)'],
  ])('%s: stored %j, then %j', (_, stored, sends, result) => {
    expect(connect(after(stored), 'auto', sends).said).toEqual(words(result))
  })
})

describe('the id in force', () => {
  test('is carried, then stood upon', () => {
    const { resume } = connect(after(''), 'auto', '')
    const places = ['a', '1:b', 'c', 'd', ':e', 'f'].flatMap((word) => resume.event(event(word)))
    expect(places.map((step) => [step.upstreamId, step.upstreamOffset])).toEqual([
      [null, null],
      ['1', 0],
      ['1', 1],
      ['1', 2],
      ['', 0],
      ['', 1],
    ])
  })

  test('that moved alone has the next event behind it', () => {
    const { resume } = connect(after(''), 'auto', '1:a [2]')
    expect(resume.cursor).toMatchObject({ ordinal: 1, upstreamId: '2', upstreamOffset: 0 })
    expect(resume.event(event('b'))).toMatchObject([{ upstreamId: '2', upstreamOffset: 1 }])
  })

  test('is the stored one after a replay, whatever the replay said', () => {
    const { resume } = connect(after('1:a b'), 'auto', '1:a b')
    expect(resume.event(event('c'))).toMatchObject([{ ordinal: 3, upstreamId: '1', upstreamOffset: 2 }])
  })

  test('is that of the new emission after a divergence', () => {
    expect(connect(after('1:a b 2:c'), 'auto', '1:a x').cursor).toMatchObject({ upstreamId: '1', upstreamOffset: 1 })
    expect(connect(after('1:a b 2:c'), 'auto', '1:a b x').cursor).toMatchObject({ upstreamId: '1', upstreamOffset: 2 })
    expect(connect(after('1:a b c'), 'auto', 'b x').cursor).toMatchObject({ upstreamId: '1', upstreamOffset: 2 })
    expect(connect(after('a b'), 'auto', 'a x').cursor).toMatchObject({ upstreamId: null, upstreamOffset: null })
  })
})

describe('an agent that gives other ids each time it says the same', () => {
  const again = 'x1:a x2:b x3:c x4:d'

  test.each<[string, string, string]>([
    ['starts over', `${again} x5:e`, 'x5:e'],
    ['starts over and is cut', 'x1:a x2:b', ''],
    ['replays a window', 'y3:c y4:d y5:e', 'y5:e'],
    ['says something else', 'x1:a x2:b x3:z', `${DIVERGED} x3:z`],
    ['replays a window that has passed', 'x6:f', `${WINDOW} x6:f`],
  ])('%s: mode replay compares what it says', (_, sends, result) => {
    expect(connect(after('1:a 2:b 3:c 4:d', 1000, true), 'replay', sends).said).toEqual(words(result))
  })
})

describe('when the log no longer has the first events', () => {
  const stored = '1:a 2:b 3:c 4:d 5:e 6:f 7:g 8:h 9:i 10:j'
  const unnamed = 'a b c d e f g h i j'

  /** As a new owner finds it: the cursor, and the last two events. */
  function trimmed(text: string, head: 'known' | 'unknown' = 'known', anyId = false): Stand {
    const { cursor } = after(text)
    const kept = words(text).map((word, at) => {
      const { id, data } = event(word)
      return {
        type: 'message',
        name: null,
        data,
        upstreamId: id,
        upstreamOffset: id === null ? null : 0,
        ordinal: at + 1,
      }
    })
    const head_ = head === 'known' ? cursor.head : null
    return { cursor, emission: Emission.of(kept.slice(-2), { ...cursor, head: head_ }, 1000, anyId) }
  }

  test.each<[string, Mode, 'known' | 'unknown', string, string, string]>([
    ['a full replay', 'auto', 'known', stored, `${stored} 11:k`, '11:k'],
    ['a full replay', 'replay', 'known', stored, `${stored} 11:k`, '11:k'],
    ['a full replay', 'replay', 'unknown', stored, `${stored} 11:k`, '11:k'],
    ['a full replay without ids', 'auto', 'known', unnamed, `${unnamed} k`, 'k'],
    ['a full replay without ids', 'auto', 'unknown', unnamed, `${unnamed} k`, 'k'],
    ['a full replay without ids', 'last-event-id', 'known', unnamed, `${unnamed} k`, 'k'],
    ['a full replay that turns into something else', 'auto', 'known', unnamed, 'a b c d e f g h i x', `${DIVERGED} x`],
    ['the id honoured', 'auto', 'known', stored, '11:k', '11:k'],
    ['the id honoured', 'auto', 'unknown', stored, '11:k', '11:k'],
    ['no replay, without ids', 'auto', 'known', unnamed, 'k l', `${NO_REPLAY} k l`],
    ['a window', 'auto', 'known', stored, '10:j 11:k', '11:k'],
    ['a window without ids', 'auto', 'unknown', unnamed, 'i j k', 'k'],
    ['a window that has passed', 'replay', 'known', stored, '12:l', `${WINDOW} 12:l`],
  ])('%s, mode %s, the first event %s', (_, mode, head, text, sends, result) => {
    expect(connect(trimmed(text, head), mode, sends).said).toEqual(words(result))
  })

  test.each<[string, string, string]>([
    ['a full replay', 'x1:a x2:b x3:c x4:d x5:e x6:f x7:g x8:h x9:i x10:j x11:k', 'x11:k'],
    ['a window', 'x9:i x10:j x11:k', 'x11:k'],
    ['a window that has passed', 'x12:l', `${WINDOW} x12:l`],
  ])('%s under other ids, mode replay', (_, sends, result) => {
    expect(connect(trimmed(stored, 'known', true), 'replay', sends).said).toEqual(words(result))
  })

  test('the un-ided events after an id that is gone are counted', () => {
    const text = '1:a b c d e f'
    expect(connect(trimmed(text), 'auto', 'b c d e f g').said).toEqual(['g'])
    expect(connect(trimmed(text), 'last-event-id', 'b c d e f g').said).toEqual(['g'])
    expect(connect(trimmed(text), 'auto', '2:g').said).toEqual(['2:g'])
    expect(connect(trimmed(text), 'auto', 'b 2:g').said).toEqual([DIVERGED, '2:g'])
  })

  test('a replay from the start outweighs a short slice that looks the same, but not a long one', () => {
    const text = 'a b c d e f g h i a'
    expect(connect(trimmed(text), 'auto', `${text} k`).said).toEqual(['k'])
    const again = 'x a b c d e f g a b c'
    const { cursor } = after(again)
    const kept = words(again).map((data, at) => {
      return { type: 'message', name: null, data, upstreamId: null, upstreamOffset: null, ordinal: at + 1 }
    })
    const stand = { cursor, emission: Emission.of(kept.slice(-3), { ...cursor, head: headOf(event('a')) }, 1000) }
    expect(connect(stand, 'auto', 'a b c k').said).toEqual(['k'])
  })

  test('an un-ided event like the first one is news where the id was sent', () => {
    expect(connect(trimmed('x 1:a 2:b 3:c 4:d'), 'auto', 'x 5:e').said).toEqual(['x', '5:e'])
    expect(connect(trimmed('x 1:a 2:b 3:c 4:d'), 'auto', 'x y').said).toEqual(['x', 'y'])
  })

  test('with nothing left of it at all', () => {
    const { cursor } = after(unnamed)
    const stand = (head: Head | null) => ({ cursor, emission: Emission.of([], { ...cursor, head }, 1000) })
    expect(connect(stand(cursor.head), 'auto', `${unnamed} k`).said).toEqual(['k'])
    expect(connect(stand(cursor.head), 'auto', 'k l').said).toEqual([NO_REPLAY, 'k', 'l'])
    expect(connect(stand(null), 'auto', `${unnamed} k`).said).toEqual(['k'])
  })
})

describe('what is held', () => {
  test('is bounded: then the longest replay is believed', () => {
    const stored = Array<string>(6000).fill('x').join(' ')
    const stand = after(`y ${stored}`, 10_000)
    const { resume } = connect(stand, 'auto', '')
    // Each x ends a shorter slice; what comes behind it is held only until it is known to be stored.
    expect(said(Array.from({ length: 6000 }, () => resume.event(event('x'))).flat())).toEqual([])
    expect(said(resume.event(event('z')))).toEqual(['z'])
  })

  test('leaves nothing behind when the connection ends', () => {
    const stand = after('a b a')
    const { said, cursor } = connect(stand, 'auto', 'a b')
    expect(said).toEqual([])
    expect(cursor).toEqual(stand.cursor)
    expect(connect({ ...stand, cursor }, 'auto', 'a b a c').said).toEqual(['c'])
  })
})

test('the cursor it keeps is the one a new owner folds from the log', () => {
  const stand = after('')
  let folded = EMPTY_CHECKPOINT
  let index = 0
  let { cursor } = stand
  for (const sends of ['a 1:b c', '1:b c d [2]', '3:e', '1:b x', '(big) y']) {
    const { resume } = connect({ ...stand, cursor }, 'auto', '')
    for (const step of words(sends).flatMap((word) => feed(resume, word))) {
      index++
      const stored = step.do === 'gap' ? { type: GAP, name: GAP, data: '{}' } : { type: 'message', ...step.event }
      const { ordinal, upstreamId, upstreamOffset } = step
      const entry = { index, sequence: index, job: 'main', ...stored, ordinal, upstreamId, upstreamOffset }
      folded = advance(folded, entry, [])
      expect(folded.jobs['main']).toMatchObject({ ordinal, upstreamId, upstreamOffset })
    }
    cursor = resume.cursor
  }
  expect(folded.jobs['main']).toEqual(cursor)
})

describe('follows', () => {
  test.each([
    ['5', '6', true],
    ['9', '10', true],
    ['run-1:41', 'run-1:42', true],
    ['a99', 'a100', true],
    ['5', '7', false],
    ['5', '5', false],
    ['6', '5', false],
    ['a5', 'b6', false],
    ['abc', 'abd', false],
    ['', '1', false],
    ['007', '008', true],
    ['09', '10', false],
    ['999999999999999', '1000000000000000', true],
    ['9007199254740993', '9007199254740994', true],
    ['1999999999999999', '2000000000000000', false],
  ])('%s then %s: %s', (before, id, expected) => expect(follows(before, id)).toBe(expected))
})
