// @ts-check

/**
 * The first `1.2.3` in what a program says of itself; null where there is none.
 * @param {string} text
 * @returns {readonly [number, number, number] | null}
 */
export function readVersion(text) {
  const found = /(\d+)\.(\d+)\.(\d+)/.exec(text)
  return found === null ? null : [Number(found[1]), Number(found[2]), Number(found[3])]
}

/**
 * @param {readonly [number, number, number]} version
 * @param {readonly [number, number, number]} floor
 */
export function isAtLeast(version, floor) {
  for (const at of /** @type {const} */ ([0, 1, 2])) {
    if (version[at] !== floor[at]) return version[at] > floor[at]
  }
  return true
}
