import { cp, mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { root } from '../kit/find-binary.ts'

/** One exact text of a file of ours and what stands there instead. */
export type Patch = { readonly file: string; readonly find: string; readonly replace: string }

/** A copy of the source, changed. The product has no switch that turns a safeguard off. */
export type Mutant = { readonly source: string; [Symbol.asyncDispose](): Promise<void> }

/**
 * Copies apps/ and libs/ to a folder of their own, in which `@baton/*` are the copies and every other package is the
 * one installed here, and patches it. A text that is not there exactly once stops the test: the source has moved on,
 * and a mutant that changes nothing would prove nothing.
 */
export async function createMutant(patches: readonly Patch[]): Promise<Mutant> {
  const source = await mkdtemp(join(tmpdir(), 'baton-mutant-'))
  const dispose = () => rm(source, { recursive: true, force: true })
  try {
    for (const folder of ['apps', 'libs']) await copySource(join(root, folder), join(source, folder))
    await cp(join(root, 'package.json'), join(source, 'package.json'))
    await linkPackages(source)
    for (const patch of patches) await applyPatch(source, patch)
  } catch (error) {
    await dispose()
    throw error
  }
  return { source, [Symbol.asyncDispose]: dispose }
}

async function copySource(from: string, to: string): Promise<void> {
  await cp(from, to, { recursive: true, filter: (path) => !path.endsWith('node_modules') })
  for (const name of await readdir(from)) {
    const own = join(from, name, 'node_modules')
    if (existsSync(own)) await symlink(own, join(to, name, 'node_modules'))
  }
}

async function linkPackages(source: string): Promise<void> {
  const modules = join(source, 'node_modules')
  await mkdir(join(modules, '@baton'), { recursive: true })
  for (const name of await readdir(join(root, 'node_modules'))) {
    if (name !== '@baton' && !name.startsWith('.')) await symlink(join(root, 'node_modules', name), join(modules, name))
  }
  for (const folder of ['apps', 'libs']) {
    for (const name of await readdir(join(source, folder))) {
      await symlink(join(source, folder, name), join(modules, '@baton', name))
    }
  }
}

async function applyPatch(source: string, { file, find, replace }: Patch): Promise<void> {
  const path = join(source, file)
  const text = await readFile(path, 'utf8')
  const found = text.split(find).length - 1
  if (found !== 1) throw new Error(`${file} holds ${found} times what this mutant changes:\n${find}`)
  await writeFile(
    path,
    text.replace(find, () => replace),
  )
}
