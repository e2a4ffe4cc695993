import { join } from 'node:path'
import { describe, expect } from 'vitest'
import { baton, batonAnswer } from '../kit/baton.ts'
import type { Child } from '../kit/child.ts'
import { eventually } from '../kit/eventually.ts'
import { root } from '../kit/find-binary.ts'
import { HandAgent } from '../kit/hand-agent.ts'
import { startWatchdog } from '../kit/process.ts'
import { testWithSystem, type System } from '../kit/system.ts'
import { Terminal } from '../kit/terminal.ts'
import { wantRun } from '../kit/want-run.ts'

/** An hour is twelve seconds here, and what else is long in proportion, as far as a loaded machine allows. */
const environment = {
  BATON_QUIET_MS: '5000',
  BATON_STALL_MS: '12000',
  BATON_ORPHAN_MS: '60000',
  BATON_HEARTBEAT_WRITE_MS: '100',
  BATON_CLAIM_TTL_MS: '30000',
}
const LONG = { withinMs: 60_000, everyMs: 100 }

const test = testWithSystem({ relays: 2, edges: 1, environment })

/** The words of `runs watch` in an 80-column terminal. */
function onTerminal(system: System, args: readonly string[], more: Record<string, string> = {}): Terminal {
  const words = [process.execPath, join(root, 'apps/cli/src/main.ts'), 'runs', 'watch', ...args]
  return Terminal.start(words, { PATH: process.env['PATH'] ?? '', BATON_NATS_URL: system.nats.url, ...more })
}

/** Waits for a line of the screen, and holds that nothing on it was ever wider than the terminal. */
const shows = (terminal: Terminal, pattern: RegExp) =>
  eventually(
    `the terminal shows ${String(pattern)}`,
    async () => {
      const lines = await terminal.lines()
      expect(terminal.isWrapped).toBe(false)
      const found = lines.find((line) => pattern.test(line))
      if (found === undefined)
        throw new Error(`it shows\n${lines.join('\n')}\nand said ${terminal.child.output.slice(-300)}`)
      return found
    },
    LONG,
  )

type Line = {
  readonly run: string
  readonly state: string
  readonly verdict: string | null
  readonly owner: { readonly relay: string; readonly boot: string; readonly epoch: number | null } | null
  readonly head: number | null
  readonly takeovers: number
  readonly changed: readonly string[]
}

const linesOf = (child: Child) => child.logLines as unknown as readonly Line[]

/** The values a field had, each once as long as it lasted. */
const story = (child: Child, field: (line: Line) => string | null) =>
  linesOf(child)
    .map(field)
    .filter((value, at, all) => value !== null && value !== all[at - 1])

describe('the whole life of a run, watched', () => {
  test('NATS away: it says so, and goes on; NO_COLOR leaves out every colour; Ctrl-C gives the terminal back', async ({
    system,
    run,
  }) => {
    const job = system.agents.job(run, { events: 100_000, perSecond: 20 })
    await system.register(run, { url: job.url, cancel: job.cancelUrl })
    await using terminal = onTerminal(system, ['--every', '200'], { NO_COLOR: '1' })
    // Without a watchdog it judges by itself, and says so.
    await shows(terminal, new RegExp(`^${run.slice(0, 8)}.* running +relay-\\d +\\d+ +\\d+ .* running +0$`))
    await shows(terminal, /no watchdogs \(judged here\)/)
    await system.nats.kill()
    await shows(terminal, /NATS does not answer for \d+s/)
    await system.nats.start()
    await shows(terminal, /^\d\d:\d\d:\d\d {2}\d+ runs?, 2 relays/)
    // oxlint-disable-next-line no-control-regex -- it looks for them
    expect(terminal.child.output).not.toMatch(/\u001b\[\d*(;\d+)*m/)
    expect(terminal.isAlternate).toBe(true)
    process.kill(terminal.foreground, 'SIGINT')
    expect(await terminal.child.exited).toEqual({ code: 0, signal: null })
    await shows(terminal, / 2 relays/)
    expect(terminal.isAlternate).toBe(false)
    await batonAnswer(system.nats.url, ['runs', 'cancel', run])
  }, 120_000)

  test('in a terminal of 80 columns, as JSON lines and as lines of text, while its owners are killed', async ({
    system,
    run,
  }) => {
    await using _dog = await startWatchdog('watchdog', { natsUrl: system.nats.url, environment })
    await using agent = await HandAgent.start()
    // With nobody to take it the run waits.
    for (const relay of system.relays) await relay.child.kill()
    await wantRun(system.store, run, { url: agent.url })

    await using terminal = onTerminal(system, [run])
    await using json = baton(system.nats.url, ['--json', 'runs', 'watch', run])
    await using text = baton(system.nats.url, ['runs', 'watch', run])
    await shows(terminal, /^\S+ +waiting +- +- +- +- +- +- +0$/)
    await shows(terminal, /^\d\d:\d\d:\d\d {2}1 run, no relays, 1 watchdog$/)
    await eventually('both pipes have it', () => linesOf(json).length > 0 && text.output.includes('waiting'), LONG)

    await system.heal()
    const work = agent.every(200, () => agent.say('output'))
    await shows(terminal, /running +relay-\d +\d+ .* running +0$/)
    await shows(terminal, /1 run, 2 relays, 1 watchdog$/)
    await shows(terminal, /running +relay-\d +\d+ +([3-9]|\d\d+) +\d+s +[01]s +running/)

    for (const takeovers of [1, 2]) {
      const owner = await system.owner(run)
      await owner.child.kill()
      const other = owner.name === 'relay-1' ? 'relay-2' : 'relay-1'
      await shows(terminal, new RegExp(`^\\S+ +running +${other} .* ${takeovers}$`))
      await shows(terminal, new RegExp(`owner ${owner.name} → ${other}`))
      await system.heal()
    }

    work[Symbol.dispose]()
    const keepalives = agent.every(300, () => agent.keepalive())
    await shows(terminal, /running +relay-\d .* quiet +2$/)
    await shows(terminal, /running +relay-\d .* stalled +2$/)
    agent.say('output')
    await shows(terminal, /running +relay-\d .* running +2$/)
    expect(terminal.isAlternate).toBe(true)
    expect(terminal.child.output).toContain('\u001b[32m')
    agent.say('done')
    keepalives[Symbol.dispose]()

    // All three end with the run, and say by their exit code how.
    expect(await terminal.child.exited).toEqual({ code: 0, signal: null })
    expect(await json.exited).toEqual({ code: 0, signal: null })
    expect(await text.exited).toEqual({ code: 0, signal: null })
    // The last screen stays when the terminal is given back.
    await shows(terminal, /ended +- .* completed +2$/)
    expect(terminal.isAlternate).toBe(false)

    expect(story(json, ({ state }) => state)).toEqual(['waiting', 'running', 'ended'])
    // A machine that takes long to start a relay makes it quiet before that, too.
    const verdicts = story(json, ({ verdict }) => verdict)
    expect(verdicts.slice(-5)).toEqual(['running', 'quiet', 'stalled', 'running', 'ended'])
    const relays = story(json, ({ owner }) => owner?.relay ?? null)
    expect(relays).toHaveLength(3)
    expect(relays[0]).toBe(relays[2])
    const epochs = story(json, ({ owner }) => owner?.epoch?.toString() ?? null).map(Number)
    expect(epochs).toEqual([...epochs].sort((one, other) => one - other))
    expect(linesOf(json).at(-1)).toMatchObject({
      run,
      state: 'ended',
      verdict: 'ended',
      owner: null,
      takeovers: 2,
      end: { reason: 'completed' },
    })
    expect(linesOf(json).at(-1)?.head).toBeGreaterThan(10)
    for (const { changed } of linesOf(json)) expect(changed).not.toEqual([])

    expect(text.output).toContain(`${run}  state waiting, owner nobody, epoch -, verdict unknown, takeovers 0\n`)
    expect(text.output).toMatch(/owner relay-1 → relay-2/)
    expect(text.output).toMatch(/verdict quiet → stalled\n/)
    expect(text.output).toMatch(/state running → ended \(completed\)/)
    expect(text.output).not.toContain('\u001b')
  }, 240_000)

  test('of a run there is not it says 4; of one that ended before, how', async ({ system, run }) => {
    expect(await batonAnswer(system.nats.url, ['runs', 'watch', 'there-is-none'])).toMatchObject({ code: 4 })
    const job = system.agents.job(run, { events: 3, perSecond: 100 })
    await system.register(run, { url: job.url })
    await eventually('it has ended', async () => (await system.show(run)).state === 'ended', LONG)
    const { code, lines } = await batonAnswer(system.nats.url, ['--json', 'runs', 'watch', run])
    expect(code).toBe(0)
    expect(lines).toMatchObject([{ run, state: 'ended', end: { reason: 'completed' } }])
  })
})
