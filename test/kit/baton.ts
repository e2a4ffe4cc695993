import { join } from 'node:path'
import { Child } from './child.ts'
import { root } from './find-binary.ts'

/** The CLI as a script starts it, with nothing of the test's own environment. */
export const baton = (natsUrl: string, args: readonly string[], environment: Record<string, string> = {}): Child =>
  new Child(`baton ${args.join(' ')}`, process.execPath, [join(root, 'apps/cli/src/main.ts'), ...args], {
    PATH: process.env['PATH'] ?? '',
    HOME: process.env['HOME'] ?? '',
    BATON_NATS_URL: natsUrl,
    ...environment,
  })

/** Runs it to its end. */
export async function batonAnswer(natsUrl: string, args: readonly string[], environment: Record<string, string> = {}) {
  await using child = baton(natsUrl, args, environment)
  const { code } = await child.exited
  return { code, output: child.output, lines: child.logLines }
}
