// Pictures of a message: they are chosen, dropped or pasted, and kept as data: URLs.
import { element } from './elements.js';

export const mostPictures = 16;   // of a message
const mostBytes = 1 << 20;        // of a file that is kept as it is
const longestSide = 2048;         // in pixels
const keptAsTheyAre = ['image/png', 'image/gif'];  // the server reads others too, but not a camera's orientation in them

export const isPicture = (file) => file.type.startsWith('image/') && file.type !== 'image/svg+xml';

/** Whether a kept value is a picture that this page has made. */
export const isPictureUrl = (value) => typeof value === 'string' && /^data:image\/(?:png|gif|jpeg);base64,[\w+/]+=*$/.test(value);

const asUrl = (blob) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(blob);
});

/** Smaller where a side is too long, on white where it is transparent. */
function redraw(bitmap) {
  const factor = Math.min(1, longestSide / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement('canvas');
  canvas.width = Math.max(1, Math.round(bitmap.width * factor));
  canvas.height = Math.max(1, Math.round(bitmap.height * factor));
  const context = canvas.getContext('2d');
  context.fillStyle = '#fff';
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = 'high';
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => { canvas.toBlob(resolve, 'image/jpeg', 0.92); });
}

/** The file as a data: URL, or an Error that says why not. */
export async function readPicture(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error(`${file.name} is no picture that this browser can read.`);
  }
  const fits = file.size <= mostBytes && Math.max(bitmap.width, bitmap.height) <= longestSide;
  const blob = fits && keptAsTheyAre.includes(file.type) ? file : await redraw(bitmap);
  bitmap.close();
  if (!blob) throw new Error(`This browser cannot draw ${file.name}.`);
  return asUrl(blob);
}

/** Calls `take(files)` for pictures that are pasted into the box. Text is pasted as ever. */
export function acceptPasted(box, take) {
  box.addEventListener('paste', (event) => {
    const files = [...event.clipboardData?.files ?? []].filter(isPicture);
    if (files.length === 0) return;
    event.preventDefault();
    take(files);
  });
}

/** Small pictures in a row; with `remove(index)` each has a button for it. */
export function pictureList(urls, remove) {
  return element('ul', urls.map((url, index) => {
    const image = element('img');
    image.src = url;
    image.alt = `Picture ${index + 1}`;
    const item = element('li', image);
    if (remove) {
      const button = element('button', '✕', 'quiet small');
      button.type = 'button';
      button.setAttribute('aria-label', `Remove picture ${index + 1}`);
      button.addEventListener('click', () => remove(index));
      item.append(button);
    }
    return item;
  }), 'pictures');
}

/** The content of a question as the API takes it. */
export const withPictures = (text, urls = []) => (urls.length === 0 ? text : [
  ...urls.map((url) => ({ type: 'image_url', image_url: { url } })),
  ...(text === '' ? [] : [{ type: 'text', text }]),
]);
