import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

export const root = join(import.meta.dirname, '..', '..')

/** Where a program is, looked for as the set-up does: the variable, PATH, `.baton/bin`. Null when it is nowhere. */
export function findBinary(name: string, variable?: string): string | null {
  const wanted = variable === undefined ? undefined : process.env[variable]
  if (wanted !== undefined && wanted !== '') return wanted
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), join(root, '.baton', 'bin')]
  return folders.map((folder) => join(folder, name)).find(isExecutable) ?? null
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
