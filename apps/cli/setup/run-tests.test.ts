import { expect, test } from 'vitest'
import { count, lastLine } from './run-tests.js'

const report = {
  numPassedTests: 3,
  numFailedTests: 0,
  numPendingTests: 0,
  numTodoTests: 0,
  testResults: [{ status: 'passed', assertionResults: [{ status: 'passed' }] }],
}

test.each([
  ['all passed', report, 0, '3 passed, 0 failed'],
  ['one failed', { ...report, numFailedTests: 1 }, 1, '3 passed, 1 failed'],
  ['one was skipped', { ...report, numPendingTests: 1 }, 0, '3 passed, 0 failed, 1 skipped'],
  [
    'a file could not be loaded',
    { ...report, testResults: [{ status: 'failed', assertionResults: [] }] },
    1,
    '3 passed, 1 failed',
  ],
  ['an error came from outside of any test', report, 1, '3 passed, 1 failed'],
  ['there is no report', null, 0, '0 passed, 1 failed'],
])('%s', (_, given, code, said) => {
  expect(lastLine(count(given, code))).toBe(said)
})
