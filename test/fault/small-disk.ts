import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const SIZE_MIB = 512
const CHUNK = Buffer.alloc(2 ** 20)

/** A disk of memory so small that it can be filled; it goes with the mount namespace it was mounted in. */
export class SmallDisk {
  #folder = ''

  mount(folder: string): void {
    mkdirSync(folder, { recursive: true })
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MIB}m`, 'tmpfs', folder])
    this.#folder = folder
  }

  /** Until nothing more fits. */
  fill(): void {
    for (let at = 0; at < SIZE_MIB; at++) {
      try {
        writeFileSync(join(this.#folder, 'filler'), CHUNK, { flag: 'a' })
      } catch {
        return
      }
    }
  }

  empty(): void {
    if (this.#folder !== '') rmSync(join(this.#folder, 'filler'), { force: true })
  }

  unmount(): void {
    if (this.#folder !== '') execFileSync('umount', ['-l', this.#folder])
  }
}
