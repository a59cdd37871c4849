// The settings dialog. Empty fields are the server's business; its own values stand in them as placeholders.

export const samplingNames = ['temperature', 'top_p', 'top_k', 'min_p', 'repeat_penalty'];

const presets = {
  'the server\'s values': {},
  'precise': { temperature: 0.2, top_p: 0.9 },
  'varied': { temperature: 1, min_p: 0.05 },
  'the most likely token, always': { temperature: 0 },
};

export class SettingsDialog {
  /** `saved` is called with the settings when they are saved. */
  constructor(dialog, saved) {
    this.dialog = dialog;
    this.form = dialog.querySelector('form');
    this.preset = dialog.querySelector('#preset');
    this.preset.append(...Object.keys(presets).map((name) => new Option(name)));
    this.preset.addEventListener('change', () => {
      const values = presets[this.preset.value];
      if (values) for (const name of samplingNames) this.field(name).value = values[name] ?? '';
    });
    this.form.addEventListener('input', () => this.showPreset());
    dialog.addEventListener('close', () => {
      if (dialog.returnValue === 'save') saved(Object.fromEntries(new FormData(this.form)));
    });
    this.showDefaults({});
  }

  field(name) {
    return this.form.elements[name];
  }

  open(settings) {
    for (const field of this.form.elements) if (field.name) field.value = settings[field.name] ?? '';
    this.showPreset();
    this.dialog.returnValue = 'cancel';
    this.dialog.showModal();
  }

  /** The preset whose values stand in the fields. */
  showPreset() {
    const matches = (values) => samplingNames.every((name) => this.field(name).value === String(values[name] ?? ''));
    this.preset.value = Object.keys(presets).find((name) => matches(presets[name])) ?? '';
  }

  /** `values`: the server's own, by name; what is missing is not known. */
  showDefaults(values) {
    for (const name of samplingNames) {
      this.field(name).placeholder = typeof values[name] === 'number' ? String(Number(values[name].toPrecision(6))) : '';
    }
  }
}
