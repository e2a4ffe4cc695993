import type { Command } from 'commander'
import { CommandError } from './exit.ts'
import { collect } from './parse-argument.ts'

const EDGE = 'http://127.0.0.1:8080'

export type EdgeFlags = { readonly edge?: readonly string[]; readonly token?: string }

/** Which edges are asked, and as whom. */
export type Edges = { readonly urls: readonly string[]; readonly token: string | null }

/** Adds what every command that speaks to edges is told. */
export const edgeOptions = (command: Command): Command =>
  command
    .option('--edge <url>', `an edge (default: ${EDGE}); given several times, any of them will do`, collect)
    .option('--token <jwt>', 'where edges ask for one; others can see a command line, so better in BATON_TOKEN')

/** Throws `usage` for what is no URL. */
export function readEdges(given: EdgeFlags, token: string | null): Edges {
  const { edge: urls = [EDGE] } = given
  const wrong = urls.find((edge) => !/^https?:\/\/./.test(edge) || !URL.canParse(edge))
  if (wrong !== undefined) throw new CommandError('usage', `--edge ${wrong}: must be an http URL`)
  return { urls, token: given.token ?? token }
}

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

/** fetch says only "fetch failed"; the reason is in its cause. */
export function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? error.cause.message : error.message
}
