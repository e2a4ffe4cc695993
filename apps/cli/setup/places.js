// @ts-check
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The checkout this file belongs to. */
export const root = fileURLToPath(new URL('../../..', import.meta.url)).replace(/[/\\]$/, '')

/** Where everything goes that is made on this machine and is not a package. */
export const house = join(root, '.baton')

/** Programs the set-up brought. */
export const programs = join(house, 'bin')

/** What Node has compiled once: a process of ours starts in half the time with it. */
export const compiled = join(house, 'compiled')
