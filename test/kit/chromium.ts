import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { chromium, type Browser } from 'playwright-core'
import { findBinary } from './find-binary.ts'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome']

/**
 * A real Chromium: the one in BATON_CHROMIUM, one on PATH, or one from apt where we are root. Null where there is none
 * to be had.
 */
export async function startChromium(): Promise<Browser | null> {
  const path = findChromium() ?? (await installChromium())
  if (path === null) return null
  return chromium.launch({ executablePath: path, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
}

function findChromium(): string | null {
  const [first = 'chromium', ...others] = NAMES
  return (
    [findBinary(first, 'BATON_CHROMIUM'), ...others.map((name) => findBinary(name))].find((path) => path !== null) ??
    null
  )
}

async function installChromium(): Promise<string | null> {
  if (process.getuid?.() !== 0 || findBinary('apt-get') === null) return null
  const run = promisify(execFile)
  const environment = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  try {
    await run('apt-get', ['update'], { env: environment })
    await run('apt-get', ['install', '-y', '--no-install-recommends', 'chromium'], { env: environment })
  } catch {
    return null
  }
  return findChromium()
}
