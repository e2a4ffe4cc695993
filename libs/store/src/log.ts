type Say = (fields: Readonly<Record<string, unknown>>, event: string) => void

/** What this library needs of the log of its process. */
export type Log = { readonly debug: Say; readonly info: Say; readonly warn: Say; readonly error: Say }
