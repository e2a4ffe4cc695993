import { execFile, execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const SIZE_MIB = 256

/** A disk of memory so small that it can be filled; it goes with the mount namespace it was mounted in. */
export class SmallDisk {
  #folder = ''

  mount(folder: string): void {
    mkdirSync(folder, { recursive: true })
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MIB}m`, 'tmpfs', folder])
    this.#folder = folder
  }

  /** Until nothing more fits. Another process does it: this one has proxies to run. */
  async fill(): Promise<void> {
    const { bavail, bsize } = await statfs(this.#folder)
    // What is written meanwhile takes its part; the rest of that is found by asking for less.
    for (let bytes = bavail * bsize; bytes >= bsize; bytes = Math.floor(bytes / 2)) {
      const file = `${this.#filler}-${bytes}`
      await promisify(execFile)('fallocate', ['-l', String(bytes), file]).catch(() => rm(file, { force: true }))
    }
  }

  async empty(): Promise<void> {
    if (this.#folder === '') return
    await promisify(execFile)('sh', ['-c', 'rm -f "$1"-*', 'sh', this.#filler])
  }

  unmount(): void {
    if (this.#folder !== '') execFileSync('umount', ['-l', this.#folder])
  }

  get #filler(): string {
    return join(this.#folder, 'filler')
  }
}
