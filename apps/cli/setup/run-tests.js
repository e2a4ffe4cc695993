// @ts-check
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { handOver } from './hand-over.js'
import { house, root } from './places.js'

/** @typedef {{ passed: number, failed: number, skipped: number }} Counts */
/**
 * What Vitest's JSON report says, as far as it is counted here.
 * @typedef {{
 *   numPassedTests: number,
 *   numFailedTests: number,
 *   numPendingTests: number,
 *   numTodoTests: number,
 *   testResults: { status: string, assertionResults: { status: string }[] }[],
 * }} Report
 */

/**
 * Runs Vitest and says the result once more as the last line, in a form that any CI reads.
 * @param {string} node
 * @param {readonly string[]} args
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<number>}
 */
export async function runTests(node, args, env) {
  const file = join(house, 'test', `report-${process.pid}.json`)
  mkdirSync(join(house, 'test'), { recursive: true })
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${file}`]
  const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
  const code = await handOver(node, [vitest, 'run', ...reporters, ...args], { cwd: root, env })
  const counts = count(readReport(file), code)
  rmSync(file, { force: true })
  process.stdout.write(`${lastLine(counts)}\n`)
  return code === 0 && counts.failed === 0 && counts.passed > 0 ? 0 : Math.max(1, code)
}

/**
 * A file that cannot be loaded has no tests and has failed; so has a run without a report, and one that failed
 * outside of any test.
 * @param {Report | null} report
 * @param {number} code
 * @returns {Counts}
 */
export function count(report, code) {
  if (report === null) return { passed: 0, failed: 1, skipped: 0 }
  const broken = report.testResults.filter(
    ({ status, assertionResults }) => status === 'failed' && !assertionResults.some((test) => test.status === 'failed'),
  ).length
  const failed = report.numFailedTests + broken
  return {
    passed: report.numPassedTests,
    failed: failed === 0 && code !== 0 ? 1 : failed,
    skipped: report.numPendingTests + report.numTodoTests,
  }
}

/** @param {Counts} counts */
export const lastLine = ({ passed, failed, skipped }) =>
  `${passed} passed, ${failed} failed${skipped === 0 ? '' : `, ${skipped} skipped`}`

/**
 * @param {string} file
 * @returns {Report | null}
 */
function readReport(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'))
  } catch {
    return null
  }
}
