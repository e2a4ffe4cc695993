import { batonAnswer } from './baton.ts'

/** What an operator does before anything else: where there are users, a relay or an edge may make no stream. */
export async function setUp(natsUrl: string, environment: Record<string, string>): Promise<void> {
  const { code, output } = await batonAnswer(natsUrl, ['setup'], environment)
  if (code !== 0) throw new Error(`\`baton setup\` ended with ${code}: ${output}`)
}
