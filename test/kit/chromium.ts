import { chromium, type Browser } from 'playwright-core'
import { findBinary } from './find-binary.ts'
import { installPackages } from './install-packages.ts'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome']

/**
 * A real Chromium: the one in BATON_CHROMIUM, one on PATH, or one from apt where we are root. Null where there is none
 * to be had.
 */
export async function startChromium(): Promise<Browser | null> {
  const path = findChromium() ?? ((await installPackages('chromium')) ? findChromium() : null)
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
