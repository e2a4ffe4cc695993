import type { Command } from 'commander'
import { isEdgeUrl } from '@baton/service/variables'
import { shownServers } from '@baton/store/nats-url'
import { BLOCKED_PORTS } from './blocked-ports.ts'
import { CommandError } from './exit.ts'
import { collect } from './parse-argument.ts'

const EDGE = 'http://127.0.0.1:8080'

/** What the command line says of edges; the environment may say the same. */
export type EdgeFlags = { readonly edge?: readonly string[]; readonly token?: string }

/** Which edges are asked, and as whom. */
export type Edges = { readonly urls: readonly string[]; readonly token: string | null }

/** Adds what every command that speaks to edges is told. */
export const edgeOptions = (command: Command): Command =>
  command
    .option('--edge <url>', 'an edge; given several times, any of them will do (default: BATON_EDGE_URL)', collect)
    .option('--token <jwt>', 'where edges ask for one; others can see a command line, so better in BATON_TOKEN')

/** What is said on the command line goes before the environment. Throws `usage` where no request can ever be sent to one of them: before the first is sent. */
export function readEdges(given: EdgeFlags, environment: EdgeFlags): Edges {
  const { edge: urls = [EDGE], token = null } = { ...environment, ...given }
  const wrong = urls.find((edge) => !isEdgeUrl(edge))
  // A user in a URL has a password beside it.
  if (wrong !== undefined) {
    throw new CommandError('usage', `--edge ${shownServers(wrong)}: must be an http URL without a user (see --token)`)
  }
  const mute = urls.find((edge) => BLOCKED_PORTS.includes(new URL(edge).port))
  if (mute !== undefined) {
    const { port } = new URL(mute)
    throw new CommandError('usage', `${mute} cannot be asked: nothing is ever sent to port ${port}`)
  }
  if (token !== null && !isSendable(token)) {
    throw new CommandError('usage', 'the token has characters that no header can hold')
  }
  return { urls, token }
}

/** Whether a header can hold it, and no name or id of ours is lost by refusing the rest. */
export const isSendable = (text: string): boolean => /^[\x20-\x7e]*$/.test(text)

export const authorization = ({ token }: Edges): Record<string, string> =>
  token === null ? {} : { authorization: `Bearer ${token}` }

/** What an edge said in place of a result. */
export async function problemOf(response: Response): Promise<string> {
  const problem = (await response.json().catch(() => null)) as { title?: string; detail?: string } | null
  return problem?.detail ?? problem?.title ?? `the edge answered ${response.status}`
}

/** The failure of a request that no other edge would answer better; null where one might. */
export function refusal(status: number, text: string): CommandError | null {
  if (status === 401 || status === 403) return new CommandError('denied', `the edge does not let you: ${text}`)
  return status < 500 && status !== 429 ? new CommandError('usage', text) : null
}

/** Is it a mistake of ours? What became of a request on its way fetch tells with a cause. */
export const isMistake = (error: unknown): boolean => error instanceof TypeError && error.cause === undefined

/** fetch says only "fetch failed"; the reason is in its cause, which has no words where several addresses were tried. */
export function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  if (!(cause instanceof Error)) return error.message
  return cause.message === '' ? (codeOf(cause) ?? error.message) : cause.message
}

export function codeOf(error: unknown): string | null {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  return code ?? null
}
