import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { execute } from '../../apps/cli/setup/execute.js'
import { findBinary, root } from './find-binary.ts'
import { installPackages } from './install-packages.ts'

const PATIENCE_MS = 25_000

/** A shell on PATH, or from apt where we are root. Null where there is none to be had. */
export async function findShell(name: 'zsh' | 'fish'): Promise<string | null> {
  const found = findBinary(name)
  if (found !== null || !(await installPackages(name))) return found
  return findBinary(name)
}

/** The home of somebody who has set up completions as the help says, with `baton` on the PATH. */
export class ShellHome {
  readonly folder: string
  readonly #env: Readonly<Record<string, string>>

  private constructor(folder: string, env: Readonly<Record<string, string>>) {
    this.folder = folder
    this.#env = env
  }

  static async make(natsUrl: string): Promise<ShellHome> {
    const folder = await mkdtemp(join(tmpdir(), 'baton-shell-'))
    const path = [join(root, 'node_modules', '.bin'), dirname(process.execPath), process.env['PATH'] ?? '']
    const home = { HOME: folder, ZDOTDIR: folder, XDG_CONFIG_HOME: join(folder, '.config') }
    return new ShellHome(folder, { ...home, PATH: path.join(delimiter), TERM: 'dumb', BATON_NATS_URL: natsUrl })
  }

  async write(name: string, text: string): Promise<void> {
    const file = join(this.folder, name)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, text)
  }

  /** What a shell says to a script of its own. */
  async run(shell: string, args: readonly string[]): Promise<string> {
    const { ok, output } = await execute(shell, args, { env: this.#env, cwd: this.folder, timeoutMs: PATIENCE_MS })
    if (!ok) throw new Error(`${shell} failed: ${output}`)
    return output
  }

  [Symbol.asyncDispose](): Promise<void> {
    return rm(this.folder, { recursive: true, force: true })
  }
}

/** Ctrl-X writes the line as it stands then into the file that the test reads, and a prompt says that it is being read. */
export const ZSH_PROBE = `
PROMPT='ready> '
answer() { print -r -- "$BUFFER|" > $HOME/answer; zle kill-buffer }
zle -N answer
bindkey '^X' answer
`

/** Types a line, Tab and Ctrl-X into an interactive zsh in a terminal of its own, and prints what became of the line. */
export const ZSH_TYPIST = `
zmodload zsh/zpty
rm -f $HOME/answer
zpty -b person zsh -i
hear() { zpty -rt person part && seen+=$part || sleep 0.05 }
until [[ $seen == *ready\\>* ]] { hear }
zpty -wn person "$1"$'\\t\\x18'
until [[ -s $HOME/answer ]] { hear }
cat $HOME/answer
zpty -d person
`
