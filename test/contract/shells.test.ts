import { describe, expect, test } from 'vitest'
import { writeKey } from '@baton/store/bucket'
import { BUCKET } from '@baton/store/names'
import { eventually } from '../kit/eventually.ts'
import { forAllTests } from '../kit/for-all-tests.ts'
import { LogServer } from '../kit/log-server.ts'
import { findShell, ShellHome, ZSH_PROBE, ZSH_TYPIST } from '../kit/shells.ts'

/** Completions in the shells themselves, set up as the help of `baton completion` says. */

const [zsh, fish] = [await findShell('zsh'), await findShell('fish')]

let home: ShellHome
forAllTests(async (keep) => {
  const log = keep(await LogServer.start())
  await writeKey(log.nats, BUCKET.runs, 'completed-1', '{"url":"http://a/b"}')
  home = keep(await ShellHome.make(log.server.url))
})

/** What was typed, and what one Tab makes of it where there is one thing to offer. */
const lines = [
  ['baton ru', 'runs'],
  ['baton runs ls --sta', '--state'],
  ['baton runs ls --state wai', 'waiting'],
  ['baton runs ls --state=wai', '--state=waiting'],
  ["baton tail topic 'orders.*' --fr", '--from'],
  // The run that there is; a machine too busy to answer at a prompt offers none, the next Tab does.
  ['baton runs show compl', 'completed-1'],
] as const

describe.skipIf(zsh === null)('zsh (skipped where there is none and apt has none)', () => {
  test.each(lines)('%s becomes …%s', async (typed, offered) => {
    await home.write('.zshrc', `autoload -Uz compinit && compinit -u\nsource <(baton completion zsh)\n${ZSH_PROBE}`)
    const whole = `${typed.slice(0, typed.lastIndexOf(' '))} ${offered} |\n`
    await eventually(
      `zsh completes ${typed}`,
      async () => (await home.run(zsh ?? '', ['-f', '-c', ZSH_TYPIST, 'typist', typed])) === whole,
    )
  })
})

describe.skipIf(fish === null)('fish (skipped where there is none and apt has none)', () => {
  test.each(lines)('%s becomes …%s', async (typed, offered) => {
    await home.run(fish ?? '', [
      '-c',
      'mkdir -p ~/.config/fish/completions; baton completion fish > ~/.config/fish/completions/baton.fish',
    ])
    const ask = async () => home.run(fish ?? '', ['-c', 'complete --do-complete $argv', typed])
    await eventually(`fish completes ${typed}`, async () => (await ask()).split(/[\t\n]/)[0] === offered)
  })

  test('shows what each of several is', async () => {
    const output = await home.run(fish ?? '', ['-c', 'complete --do-complete "baton runs "'])
    expect(output.split('\n')).toContain('ls\tlist the runs')
  })
})
