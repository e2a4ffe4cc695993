/** The package comes without types. */
declare module 'parse-prometheus-text-format' {
  const parse: (text: string) => { readonly name: string; readonly help: string; readonly type: string }[]
  export default parse
}
