// Hyperparameters of optimizers as fields: Enter applies a value, Escape brings the old one back.

import { focusedNear, h, setText } from "./dom";
import type { Echo } from "./protocol";

export interface KnobValue {
  name: string;
  value: number;
  /** Which optimizer of the session, and which of its groups, from 0. */
  optimizer: number;
  group: number;
}

/** Sets a value; the answer is undefined if there was nobody to ask. */
export type TurnKnob = (knob: KnobValue, value: number) => Promise<Echo | undefined>;

interface Field {
  knob: KnobValue;
  element: HTMLElement;
  input: HTMLInputElement;
  /** Applied, but not yet in any batch that was shown. */
  applied: number | null;
}

/** A number as Python would print it, near enough to read and to type again. */
export function knobText(value: number): string {
  return String(value).replace("e+", "e");
}

/** What was typed as a number; null if it is none. */
export function knobNumber(text: string): number | null {
  const plain = text.trim().replace(/_/g, "");
  const value = Number(plain);
  return plain === "" || !Number.isFinite(value) ? null : value;
}

export class Knobs {
  readonly element = h("span", { class: "knobs", role: "group" });
  private fields: Field[] = [];
  private drawn = "";
  private alive = true;

  constructor(
    label: string,
    private readonly turn: TurnKnob,
  ) {
    this.element.setAttribute("aria-label", `Hyperparameters of ${label}`);
  }

  /** `barred`: why they cannot be changed, else empty. `news`: these are of a later batch than the ones before. */
  update(knobs: KnobValue[], label: string, alive: boolean, news: boolean, barred = ""): void {
    const key = JSON.stringify(knobs.map(({ name, optimizer, group }) => [name, optimizer, group]));
    if (key !== this.drawn) {
      this.drawn = key;
      this.fields = knobs.map((knob) => this.field(knob, label));
      this.element.replaceChildren(...this.fields.map(({ element }) => element));
    }
    this.alive = alive && !barred;
    this.fields.forEach((field, i) => {
      field.knob = knobs[i] ?? field.knob;
      if (news) field.applied = null;
      field.input.disabled = !this.alive;
      field.input.title = barred || `${field.knob.name}: Enter applies, Escape reverts`;
      if (focusedNear(field.input) !== field.input) this.reset(field);
    });
  }

  private field(knob: KnobValue, label: string): Field {
    const input = h("input", { type: "text", inputmode: "decimal", class: "inp knob", spellcheck: "false", autocomplete: "off", "aria-label": `${knob.name} of ${label}` });
    const field: Field = { knob, input, element: h("label", { class: "knoblabel" }, h("span", {}, knob.name), input), applied: null };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") void this.apply(field);
      else if (event.key === "Escape" && this.isChanged(field)) this.reset(field);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    input.addEventListener("input", () => input.removeAttribute("aria-invalid"));
    // What was not applied is not kept: a number that only looks set would mislead.
    input.addEventListener("blur", () => this.reset(field));
    return field;
  }

  private async apply(field: Field): Promise<void> {
    const value = knobNumber(field.input.value);
    if (value === null || !this.alive) {
      field.input.setAttribute("aria-invalid", "true");
      return;
    }
    const before = field.applied;
    field.applied = value;
    const echo = await this.turn(field.knob, value).catch(() => undefined);
    if (echo && !echo.error) return;
    field.applied = before;
    field.input.setAttribute("aria-invalid", "true");
  }

  private isChanged(field: Field): boolean {
    return field.input.value !== this.text(field);
  }

  private text({ applied, knob }: Field): string {
    return knobText(applied ?? knob.value);
  }

  private reset(field: Field): void {
    const text = this.text(field);
    if (field.input.value !== text) field.input.value = text;
    field.input.style.width = `${Math.max(3, text.length) + 2}ch`;
    field.input.removeAttribute("aria-invalid");
    setText(field.element.firstElementChild as Element, field.knob.name);
  }
}
