// The settings dialog. Empty fields are the server's business; its own values stand in them as placeholders.

export const samplingNames = ['temperature', 'top_p', 'top_k', 'min_p', 'repeat_penalty'];

const presets = {
  'the server\'s values': {},
  'precise': { temperature: 0.2, top_p: 0.9 },
  'varied': { temperature: 1, min_p: 0.05 },
  'the most likely token, always': { temperature: 0 },
};

export class SettingsDialog {
  /** `saved` is called with the settings when they are saved, `presetsKept` with the user's own presets when they change. */
  constructor(dialog, saved, presetsKept) {
    this.dialog = dialog;
    this.form = dialog.querySelector('form');
    this.preset = dialog.querySelector('#preset');
    this.presetName = dialog.querySelector('#preset-name');
    this.dropPreset = dialog.querySelector('#drop-preset');
    this.presetsKept = presetsKept;
    this.own = {};
    this.preset.addEventListener('change', () => {
      const values = this.presets[this.preset.value];
      if (values) for (const name of samplingNames) this.field(name).value = values[name] ?? '';
      this.showPreset(this.preset.value);
    });
    this.form.addEventListener('input', ({ target }) => {
      if (target !== this.presetName && target !== this.preset) this.showPreset();
    });
    dialog.querySelector('#keep-preset').addEventListener('click', () => this.keep(this.presetName.value.trim()));
    this.presetName.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter') return;
      event.preventDefault();
      this.keep(this.presetName.value.trim());
    });
    this.dropPreset.addEventListener('click', () => this.drop(this.preset.value));
    dialog.querySelector('.cancel').addEventListener('click', () => dialog.close('cancel'));
    dialog.addEventListener('close', () => {
      if (dialog.returnValue === 'save') saved(Object.fromEntries(new FormData(this.form)));
    });
    this.showDefaults({});
  }

  field(name) {
    return this.form.elements[name];
  }

  get presets() {
    return { ...presets, ...this.own };
  }

  open(settings) {
    this.own = settings.presets ?? {};
    for (const field of this.form.elements) if (field.name) field.value = settings[field.name] ?? '';
    this.showPreset();
    this.dialog.returnValue = 'cancel';
    this.dialog.showModal();
  }

  /** The values in the fields as a preset of the user's. */
  keep(name) {
    if (name === '') return this.presetName.focus();
    const filled = samplingNames.filter((field) => this.field(field).value !== '');
    this.change({ ...this.own, [name]: Object.fromEntries(filled.map((field) => [field, this.field(field).value])) }, name);
    this.presetName.value = '';
    return undefined;
  }

  drop(name) {
    const { [name]: dropped, ...rest } = this.own;
    if (dropped) this.change(rest);
    this.preset.focus();
  }

  change(own, name) {
    this.own = own;
    this.presetsKept(own);
    this.showPreset(name);
  }

  /** The preset whose values stand in the fields: `name`, where several have the same. */
  showPreset(name) {
    const all = this.presets;
    const matches = (values) => samplingNames.every((field) => this.field(field).value === String(values[field] ?? ''));
    const shown = [name, ...Object.keys(all)].find((one) => one && all[one] && matches(all[one])) ?? '';
    this.preset.replaceChildren(new Option('as below', ''), ...Object.keys(all).map((one) => new Option(one)));
    this.preset.value = shown;
    this.dropPreset.disabled = !(shown in this.own);
  }

  /** `values`: the server's own, by name; what is missing is not known. */
  showDefaults(values) {
    for (const name of samplingNames) {
      this.field(name).placeholder = typeof values[name] === 'number' ? String(Number(values[name].toPrecision(6))) : '';
    }
  }
}
