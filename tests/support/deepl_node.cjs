/* The official DeepL client for Node, unpatched. Prints the checks that failed; exit code 0 = none.

     node deepl_node.cjs URL      in a folder with node_modules/deepl-node                        */
'use strict';
const assert = require('node:assert');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const deepl = require(require.resolve('deepl-node', { paths: [process.cwd()] }));

const client = new deepl.DeepLClient('any key', { serverUrl: process.argv[2] });
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'deepl-node-'));
const terms = (entries) => new deepl.GlossaryEntries({ entries });
const dictionary = (entries, targetLangCode = 'de') => ({
  sourceLangCode: targetLangCode === 'de' ? 'en' : 'de', targetLangCode, entries: terms(entries),
});

const checks = {
  async text() {
    const one = await client.translateText('This is a test of the server.', null, 'de');
    assert.strictEqual(one.text, 'THIS IS A TEST OF THE SERVER.');
    assert.strictEqual(one.detectedSourceLang, 'en');
    assert.strictEqual(one.billedCharacters, 29);
    const many = await client.translateText(['First & last.', 'Second.'], 'en', 'de', {
      formality: 'prefer_less', context: 'a web shop', preserveFormatting: true,
      outlineDetection: false, splitSentences: 'nonewlines', modelType: 'latency_optimized',
      customInstructions: ['Be brief.', 'Be kind.'], extraRequestParameters: { future: '1' },
    });
    assert.deepStrictEqual(many.map((result) => result.text), ['FIRST & LAST.', 'SECOND.']);
  },
  async tags() {
    const result = await client.translateText('Press <x>Enter</x> &amp; <b>wait</b>.', 'en', 'de', {
      tagHandling: 'xml', ignoreTags: ['x', 'y'], splittingTags: ['p'], nonSplittingTags: ['b'],
    });
    assert.strictEqual(result.text, 'PRESS <x>Enter</x> &amp; <b>WAIT</b>.');
  },
  async variants() {
    for (const target of ['en-US', 'en-GB']) {
      const result = await client.translateText('Hallo.', 'de', target);
      assert.strictEqual(result.text, 'HALLO.');
    }
  },
  async languagesAndUsage() {
    const codes = (languages) => languages.map((language) => language.code);
    assert.deepStrictEqual(codes(await client.getSourceLanguages()), ['de', 'en']);
    const targets = await client.getTargetLanguages();
    assert.deepStrictEqual(codes(targets), ['de', 'en', 'en-GB', 'en-US']);
    assert(targets.every((language) => language.supportsFormality === false));
    assert.strictEqual((await client.getGlossaryLanguagePairs()).length, 2);
    const usage = await client.getUsage();
    assert.strictEqual(usage.anyLimitReached(), false);
    assert.strictEqual(usage.character.limit, 1e12);
  },
  async glossariesOfVersion2() {
    const made = await client.createGlossary('terms', 'en', 'de', terms({ artist: 'Maler' }));
    assert.deepStrictEqual((await client.getGlossaryEntries(made)).entries(), { artist: 'Maler' });
    const listed = await client.listGlossaries();
    assert.deepStrictEqual(listed.map((info) => info.name), ['terms']);
    const result = await client.translateText('The artist left.', 'en', 'de', { glossary: made });
    assert.strictEqual(result.text, 'THE Maler LEFT.');
    const file = path.join(folder, 'terms.csv');
    fs.writeFileSync(file, 'a,b\n"c, c",d\n');
    const table = await client.createGlossaryWithCsv('table', 'en', 'de', file);
    assert.strictEqual(table.entryCount, 2);
    for (const info of [made, table]) await client.deleteGlossary(info);
    await assert.rejects(client.getGlossary(made.glossaryId), deepl.GlossaryNotFoundError);
  },
  async glossariesOfVersion3() {
    const made = await client.createMultilingualGlossary(
      'terms', [dictionary({ artist: 'Maler' }), dictionary({ Maler: 'artist' }, 'en')]);
    await client.updateMultilingualGlossaryName(made, 'new');
    await client.updateMultilingualGlossaryDictionary(made, dictionary({ prize: 'Preis' }));
    const entries = async () =>
      (await client.getMultilingualGlossaryDictionaryEntries(made, 'en', 'de')).entries.entries();
    assert.deepStrictEqual(await entries(), { artist: 'Maler', prize: 'Preis' });
    await client.replaceMultilingualGlossaryDictionary(made, dictionary({ left: 'ging' }));
    assert.deepStrictEqual(await entries(), { left: 'ging' });
    const result = await client.translateText('The artist left.', 'en', 'de', { glossary: made });
    assert.strictEqual(result.text, 'THE ARTIST ging.');
    assert.strictEqual((await client.listMultilingualGlossaries())[0].name, 'new');
    await client.deleteMultilingualGlossaryDictionary(made, 'en', 'de');
    const left = await client.getMultilingualGlossary(made.glossaryId);
    assert.strictEqual(left.dictionaries.length, 1);
    await client.deleteMultilingualGlossary(made);
    await assert.rejects(
      client.getMultilingualGlossary(made.glossaryId), deepl.GlossaryNotFoundError);
  },
  async documents() {
    const [input, output] = ['a.txt', 'b.txt'].map((name) => path.join(folder, name));
    fs.writeFileSync(input, 'Hello world.\n');
    const status = await client.translateDocument(input, output, 'en', 'de', {});
    assert(status.done());
    assert.strictEqual(status.billedCharacters, 12);
    assert.strictEqual(fs.readFileSync(output, 'utf8'), 'HELLO WORLD.\n');
    fs.writeFileSync(path.join(folder, 'c.po'), 'msgid "a"\nmsgstr "b\n');
    await assert.rejects(
      client.translateDocument(path.join(folder, 'c.po'), path.join(folder, 'd.po'), 'en', 'de'),
      /line 2/);
  },
  async errors() {
    await assert.rejects(client.translateText('x', 'en', 'de', { formality: 'more' }), /formality/);
    await assert.rejects(client.translateText('x', 'en', 'xx'), /not supported/);
  },
};

(async () => {
  for (const [name, check] of Object.entries(checks)) {
    try { await check(); } catch (error) { process.exitCode = 1; console.log(name, error.message); }
  }
  fs.rmSync(folder, { recursive: true });
})();
