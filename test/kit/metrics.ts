import parse from 'parse-prometheus-text-format'

/** A family of figures as a scrape finds it. */
export type Family = { readonly name: string; readonly help: string; readonly type: string }

export type Scrape = {
  readonly families: readonly Family[]
  /** Every series: its name with its labels. */
  readonly series: readonly string[]
  /** Every value of every label there is, by the label's name. */
  readonly labels: ReadonlyMap<string, ReadonlySet<string>>
}

/** What `/metrics` of a process says, read by a parser that is not ours. Throws for a line that is none of the format. */
export async function scrape(url: string): Promise<Scrape> {
  const response = await fetch(`${url}/metrics`)
  if (!response.ok) throw new Error(`GET ${url}/metrics: ${response.status}`)
  const type = response.headers.get('content-type') ?? ''
  if (!type.startsWith('text/plain; version=0.0.4')) throw new Error(`${url}/metrics is ${type}`)
  const text = await response.text()
  const series = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  const labels = new Map<string, Set<string>>()
  for (const line of series) {
    for (const [, name = '', value = ''] of line.matchAll(/[{,](\w+)="([^"]*)"/g)) {
      labels.set(name, (labels.get(name) ?? new Set()).add(value))
    }
  }
  return { families: parse(text), series: series.map((line) => line.slice(0, line.lastIndexOf(' '))), labels }
}

/** The units Prometheus counts in; whatever else a name may end with has no unit. */
const OTHER_UNITS =
  /_(ms|milliseconds|microseconds|nanoseconds|minutes|hours|kb|mb|kilobytes|megabytes|mebibytes|percent)(_|$)/
const SUFFIX_OF_PARTS = /_(count|sum|bucket|info)$/

/** What is wrong with a family by the conventions of Prometheus, and of this project. */
export function complaints({ name, help, type }: Family): string[] {
  const counts = type === 'COUNTER'
  return [
    ...(/^[a-z][a-z0-9_]*$/.test(name) ? [] : ['its name is not snake_case']),
    ...(help.trim() === '' ? ['it has no HELP'] : []),
    ...(['COUNTER', 'GAUGE', 'HISTOGRAM', 'SUMMARY'].includes(type) ? [] : [`its TYPE is ${type}`]),
    ...(counts === name.endsWith('_total') ? [] : ['a counter, and only a counter, ends in _total']),
    ...(OTHER_UNITS.test(name) ? ['it counts in no base unit'] : []),
    ...(SUFFIX_OF_PARTS.test(name) ? ['its suffix is that of a part of a histogram'] : []),
    ...(type === 'HISTOGRAM' && !/_(seconds|bytes)$/.test(name) ? ['a histogram without a unit'] : []),
  ].map((complaint) => `${name}: ${complaint}`)
}
