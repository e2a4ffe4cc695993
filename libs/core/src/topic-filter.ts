/**
 * Filters of topics as NATS understands them: `*` stands for one token, a last `>` for one or more (`isTopicFilter` says
 * what is one). One consumer takes several only where no topic fits two of them.
 */

/** Does this filter take every topic that the other takes? */
export function covers(filter: string, other: string): boolean {
  const [wide, narrow] = [filter.split('.'), other.split('.')]
  for (const [at, token] of wide.entries()) {
    const theirs = narrow[at]
    if (theirs === undefined) return false
    if (token === '>') return true
    if (theirs === '>' || (token !== '*' && token !== theirs)) return false
  }
  return wide.length === narrow.length
}

/** Is there a topic that both take? */
export function collide(one: string, other: string): boolean {
  const [left, right] = [one.split('.'), other.split('.')]
  for (let at = 0; at < Math.max(left.length, right.length); at++) {
    const [mine, theirs] = [left[at], right[at]]
    if (mine === undefined || theirs === undefined) return false
    if (mine === '>' || theirs === '>') return true
    if (mine !== '*' && theirs !== '*' && mine !== theirs) return false
  }
  return true
}

/** The filters without those that others cover, in one order for equal sets. */
export function reduceFilters(filters: readonly string[]): readonly string[] {
  const all = [...new Set(filters)].sort()
  return all.filter((filter) => !all.some((other) => other !== filter && covers(other, filter)))
}

/** Two of these that share topics, though neither covers the other; null when there are none. */
export function findCollision(filters: readonly string[]): readonly [string, string] | null {
  for (const [at, one] of filters.entries()) {
    const other = filters.slice(at + 1).find((later) => collide(one, later))
    if (other !== undefined) return [one, other]
  }
  return null
}

export const hasWildcard = (filter: string): boolean => /[*>]/.test(filter)
