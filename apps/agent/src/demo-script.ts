const topics = [
  'the ferry timetable',
  'a slow query',
  'the March invoices',
  'an unread inbox',
  'the release notes',
  'a flaky test',
]
const tools = ['search', 'read_file', 'run_query', 'list_messages', 'fetch_page']
const openings = [
  'Let me look at',
  'I will start with',
  'Next I check',
  'That explains',
  'Before I answer I want to see',
  'Now I compare',
]
const findings = [
  'nothing unusual',
  'three entries that differ',
  'one that is older than the rest',
  'what I was looking for',
  'two that contradict each other',
]

const pick = <T>(list: readonly T[], at: number): T => list[at % list.length] as T

/** A number that only depends on the name: every run tells its own story, the same one each time. */
function seed(text: string): number {
  let h = 7
  for (const character of text) h = (h * 31 + (character.codePointAt(0) ?? 0)) % 65_521
  return h
}

/**
 * The `i`-th event of a run that reads like an AI agent at work: it says what it will do, calls a tool, gets a result,
 * tells how far it is.
 */
export function demoEvent(job: string, i: number, take: number): { name: string | null; data: string } {
  const at = seed(job) + take
  const step = Math.ceil(i / 5)
  const topic = pick(topics, at + Math.floor(step / 4))
  const tool = pick(tools, at + step)
  const call = `call_${step}`
  switch (i % 5) {
    case 1:
      return event('assistant', { text: `${pick(openings, at + step)} ${topic}.` })
    case 2:
      return event('tool_call', { id: call, tool, arguments: { query: topic, page: step } })
    case 3:
      return event('progress', { step, note: `${tool} is running` })
    case 4:
      return event('tool_result', { id: call, tool, found: (at * step) % 17, summary: pick(findings, at + step * 3) })
    default:
      return event('output', { text: `Step ${step}: in ${topic} I found ${pick(findings, at + step * 3)}.\n` })
  }
}

const event = (name: string, fields: object) => ({ name, data: JSON.stringify({ type: name, ...fields }) })
